"""Candidates that are measured on several shapes: costs are geometric means."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from autotune.errors import UsageError
from autotune.measure.build_bench import BuildBench
from autotune.measure.candidate import CandidateError
from autotune.measure.result import MeasureErrorNo
from autotune.measure.roofline import Ceiling
from autotune.measure.run_bench import RunResult
from autotune.measure.several_shapes import SeveralShapes
from autotune.operators.template_lookup import find_template
from autotune.task.task import Task
from autotune.tuner.run.limits import Limits
from autotune.tuner.run.tuning_job import TuningRequest, tune_requests
from records import RecordStore


class OneShape:
    """A bench that returns what it is told to."""

    reference, notes = "given", []

    def __init__(self, costs_s=(1.0,), error=None, noise=None, fails="", library_s=None):
        self.checks = ["exact"]
        self.costs_s, self.error, self.noise, self.fails = costs_s, error, noise, fails
        self.library_s = library_s
        parameters = [SimpleNamespace(shape=(2, 3))]
        self.subject = SimpleNamespace(signature=SimpleNamespace(parameters=parameters))

    def run(self, loaded, incumbent_s=None):
        if self.fails:
            raise CandidateError(MeasureErrorNo.WRONG_ANSWER, "check", self.fails)
        assert incumbent_s is None
        return RunResult(self.costs_s, self.error, noise=self.noise)

    def enter(self, loaded):
        return self.error

    def round(self, loaded, seconds, seed):
        return RunResult(tuple(seconds * cost for cost in self.costs_s[: len(loaded)]))

    def ceiling(self):
        return Ceiling({"float32": self.costs_s[0]}, self.costs_s[0], self.library_s)

    def baseline(self):
        return self.costs_s or None


def test_a_cost_is_the_geometric_mean_of_the_times_on_each_shape():
    bench = SeveralShapes([OneShape((1.0, 2.0, 3.0), 0.1, 0.2), OneShape((4.0, 8.0), 0.3)])
    found = bench.run(None, incumbent_s=1e-9)
    assert found.costs_s == pytest.approx((2.0, 4.0))
    assert (found.max_error, found.noise, found.raced) == (0.3, 0.2, False)
    assert bench.enter(None) == 0.3
    assert bench.checks == ["exact"]


def test_the_time_of_a_round_is_shared_by_the_shapes():
    bench = SeveralShapes([OneShape((1.0, 2.0)), OneShape((4.0, 8.0))])
    assert bench.round(["a", "b"], 2.0, 0).costs_s == pytest.approx((2.0, 4.0))


def test_a_candidate_that_fails_on_one_shape_fails_and_says_on_which():
    bench = SeveralShapes([OneShape(), OneShape(fails="it is wrong")])
    with pytest.raises(CandidateError) as failure:
        bench.run(None)
    assert failure.value.message == "with arrays of (2, 3): it is wrong"
    assert failure.value.code is MeasureErrorNo.WRONG_ANSWER


def test_ceilings_and_baselines_are_means_where_every_shape_has_one():
    bench = SeveralShapes([OneShape((1.0,), library_s=2.0), OneShape((4.0,), library_s=8.0)])
    found = bench.ceiling()
    assert found.peak_flops["float32"] == pytest.approx(2.0)
    assert found.copy_bytes_s == pytest.approx(2.0)
    assert found.library_s == pytest.approx(4.0)
    assert bench.baseline() == pytest.approx((2.0,))
    lacking = SeveralShapes([OneShape((1.0,), library_s=2.0), OneShape(())])
    assert lacking.baseline() is None


def task_of(**sizes):
    return Task(find_template("matmul", "llvm"), {"n": 24, "k": 16, **sizes}, "llvm")


def test_a_task_of_open_sizes_has_a_member_for_each_shape():
    task = task_of(m=[4, 16])
    assert [member.args["m"] for member in task.members] == [4, 16]
    assert task.flops == pytest.approx(2 * 8 * 24 * 16)
    assert task.arguments[0].shape == (8, 16)  # what is likely
    assert [s.signature.parameters[0].shape for s, _ in BuildBench(task).subjects()] == [
        (4, 16),
        (16, 16),
    ]
    single = task_of(m=4)
    assert single.members == (single,)


def test_a_kernel_is_tuned_over_a_list_of_sizes(tmp_path):
    store = RecordStore(tmp_path / "log.jsonl")
    tune_requests([TuningRequest(task_of(m=[4, 16]), store, Limits(2))])
    records = store.load()
    assert sum(record.is_trial and record.ok for record in records) == 2
    assert records[0].args["m"] == [4, 16]


def test_lists_of_several_arguments_need_the_same_length():
    with pytest.raises(UsageError, match="same length; m has 2, n has 1"):
        task_of(m=[4, 16], n=[8])


def test_inputs_that_do_not_change_have_no_open_sizes():
    matmul = find_template("matmul", "llvm")
    args = {"m": [4, 16], "n": [8, 24], "k": 16}
    with pytest.raises(UsageError, match=r"'B' .* does not change, .* not a list: n"):
        _ = Task(matmul, args, "llvm", constant=(1,)).default_index
    assert Task(matmul, {**args, "n": 8}, "llvm", constant=(1,)).default_index >= 0
