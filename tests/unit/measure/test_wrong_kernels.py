"""No wrong kernel is recorded as valid, whatever the operator, the type and the mistake."""

from __future__ import annotations

import pytest
from support.benches import Fake, answers_bench
from support.wrong_kernels import Workload, cases, workloads
from support.wrong_layer_workloads import layers

from autotune.measure.candidate import CandidateError
from autotune.measure.result import MeasureErrorNo
from autotune.measure.run_bench import RunBench

WORKLOADS = [*workloads(), *layers()]


pytestmark = pytest.mark.usefixtures("own_cache")


def verdict(bench: RunBench, kernel: Fake) -> MeasureErrorNo | None:
    """Return why a kernel is refused, None if it is taken for right."""
    try:
        bench.run(kernel)
    except CandidateError as error:
        return error.code
    return None


def passing(workload: Workload, seed: int) -> list[str]:
    """Return the kernels of a workload that do not fail, or fail by anything but their answers."""
    task = workload.task()
    bench = answers_bench(task, seed)
    wrong = MeasureErrorNo.WRONG_ANSWER
    return [
        name for name, kernel in cases(workload, task) if verdict(bench, Fake(kernel)) is not wrong
    ]


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: w.name)
def test_no_wrong_kernel_is_taken_for_right(workload: Workload) -> None:
    assert passing(workload, 0) == []


@pytest.mark.slow
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: w.name)
def test_no_wrong_kernel_is_taken_for_right_by_other_inputs(workload: Workload) -> None:
    assert [(seed, *passing(workload, seed)) for seed in (1, 2, 3)] == [(1,), (2,), (3,)]
