"""The tuning loop and the default: when it is measured, and what the best is compared with."""

from fake_measurer import FakeMeasurer, run

from autotune.measure.result import MeasureError, MeasureErrorNo, MeasureResult
from autotune.tuner.factory import make_tuner
from autotune.tuner.grid import GridTuner
from autotune.tuner.random import RandomTuner
from records import RecordStore


def test_a_proposed_default_is_the_baseline_and_is_not_measured_again(task, store):
    tuner = make_tuner("model", task.space, 0)
    summary, measurer = run(task, store, 3, tuner=tuner)
    assert measurer.asked.count(task.default_index) == 1
    assert summary.default_cost_s == 1.0 + task.default_index


def test_the_default_is_measured_first_whatever_the_tuner_proposes(task, store):
    default = task.default_index
    others = [i for i in range(4) if i != default][:2]

    class Fixed(GridTuner):
        def _propose(self, n):
            return [i for i in others if i not in self._seen][:n]

    tuner = Fixed(task.space, 0)
    summary, measurer = run(task, store, 3, tuner=tuner)
    assert measurer.asked[:3] == [default, *others]
    assert summary.default_cost_s == 1.0 + default
    assert [o.index for o in tuner.observations] == [default, *others]
    (one, _) = run(task, RecordStore(store.path.with_name("x")), 1, tuner=Fixed(task.space, 0))
    assert one.default_cost_s == one.best.cost_s == 1.0 + default


def test_a_resumed_run_compares_with_the_default_of_the_log(task, store):
    first, _ = run(task, store, 4, FakeMeasurer(), RandomTuner(task.space, 0))
    events = []
    again, measurer = run(task, store, 4, on_event=events.append)
    assert measurer.asked == []
    assert again.default_costs_s == first.default_costs_s == (1.0 + task.default_index,)
    assert events[0].default_cost_s == again.default_cost_s


def test_the_best_and_the_default_are_measured_once_more_side_by_side(task, store):
    class Backwards(GridTuner):
        def _propose(self, n):
            return [i for i in (3, 2, 1) if i not in self._seen][:n]

    default = task.default_index
    base = {default: 9.0, 1: 1.0, 2: 3.0, 3: 5.0}
    measurer = FakeMeasurer(cost=lambda index, calls: base[index] + calls)
    summary, _ = run(task, store, 4, measurer, Backwards(task.space, 0))
    assert measurer.asked == [default, 3, 2, 1, default, 1, 1, default]
    assert measurer.again == [default, 1, 1, default]
    assert summary.best.cost_s == 1.0 + 4
    assert summary.default_costs_s == (9.0 + 5, 9.0 + 8)
    assert summary.best_costs_s == (1.0 + 6, 1.0 + 7)
    assert len(store.load()) == 4


def test_what_fails_when_measured_once_more_leaves_the_first_times_and_a_warning(
    task, store, caplog
):
    class FailsLater(FakeMeasurer):
        def measure(self, inputs, still_wanted=None):
            for candidate, result in super().measure(inputs, still_wanted):
                error = MeasureError(MeasureErrorNo.WRONG_ANSWER, "check", "wrong")
                yield candidate, MeasureResult(error=error) if candidate.again else result

    measurer = FailsLater(cost=lambda index, calls: 10.0 - index)
    summary, _ = run(task, store, 3, measurer)
    assert summary.default_costs_s == (10.0,)
    assert summary.best_costs_s is None
    (message,) = caplog.messages
    assert message == "plain(n=64): what worked before has failed when measured again: wrong"


def test_a_best_that_is_the_default_is_not_measured_again(task, store):
    summary, measurer = run(task, store, 3)
    assert task.default_index == summary.best.index
    assert len(measurer.asked) == 3
    assert summary.best_costs_s is None
