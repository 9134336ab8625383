"""The tuning loop and the default: when it is measured, and what the best is compared with."""

from support.fake_measurer import FakeMeasurer, run

from autotune.tuner.factory import make_tuner
from autotune.tuner.search.baselines import GridTuner, RandomTuner
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
