"""No right kernel is refused: other orders of sums, fused multiply-adds, other formulas."""

from __future__ import annotations

import pytest
from support.benches import Fake, answers_bench
from support.right_kernels import Workload, workloads

from autotune.measure.candidate import CandidateError

WORKLOADS = list(workloads())


pytestmark = pytest.mark.usefixtures("own_cache")


def refused(workload: Workload, seed: int) -> list[str]:
    """Return what is said against the kernels of a workload."""
    bench = answers_bench(workload.task(), seed)
    found = []
    for name, kernel in workload.kernels.items():
        try:
            bench.run(Fake(kernel))
        except CandidateError as error:
            found.append(f"{name}: {error.message}")
    return found


@pytest.mark.parametrize("workload", [w for w in WORKLOADS if w.is_small], ids=lambda w: w.name)
def test_no_right_kernel_is_refused(workload: Workload) -> None:
    assert refused(workload, 0) == []


@pytest.mark.slow
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: w.name)
def test_no_right_kernel_is_refused_by_other_inputs(workload: Workload) -> None:
    assert [refused(workload, seed) for seed in (0, 1, 2, 3)] == [[]] * 4
