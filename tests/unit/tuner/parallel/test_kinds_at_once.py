"""Searches for several kinds of devices: at the same time, apart in the log, learning by ranks."""

import itertools

import numpy as np
import pytest
from support.parallel_runs import fleet, recording

from autotune.errors import AutotuneError
from autotune.tuner.base import Tuner
from autotune.tuner.factory import make_tuner
from autotune.tuner.model.transfer import TransferPrior
from autotune.tuner.run.events import End, Finished, Measured
from autotune.tuner.run.limits import Deadline, Limits
from autotune.tuner.run.parallel.kinds_at_once import GROWTH, OtherKinds, _groups, tune_sessions
from autotune.tuner.run.parallel.parallel_session import new_session
from autotune.tuner.search.baselines import GridTuner
from benchmarks.simulated_fleet import (
    CommonClock,
    RecordedTask,
    SimulatedAnswers,
    SimulatedFleet,
    VirtualClock,
)
from records import RecordStore
from records.record import without_node

FAST, SLOW = "Fast 9000", "Slow 100"


class Run:
    """Searches of one space on several kinds of devices, and what came of them."""

    def __init__(self, path, limits=None, tuner="grid"):
        self.store = RecordStore(path / "log.jsonl")
        self.clock = CommonClock(VirtualClock())
        self.limits = limits or Limits()
        self.tuner = tuner
        self.sessions, self.tuners, self.events = [], [], []

    def add(self, name, recorded, width=2, lost_s=None, workload=None):
        """Add the search of a kind of device."""
        task = RecordedTask(recorded)
        measurer = fleet(recorded, width, self.clock, lost_s=lost_s, name=name)
        tuner = self.tuner
        if not isinstance(tuner, Tuner):
            tuner = make_tuner(tuner, task.space, 0)
        self.tuners.append(tuner)
        session = new_session(
            task, measurer, tuner, self.store, 0, self.limits,
            job=f"{task.workload.template} {name}", clock=self.clock,
        )  # fmt: skip
        self.sessions.append(session)
        return session

    def run(self, seconds=None):
        deadline = Deadline(seconds, self.clock)
        together = self.clock.run_together
        return tune_sessions(self.sessions, self.events.append, deadline, together)

    def records(self, name):
        return [record for record in self.store.load() if record.device["name"] == name]


def slower(recorded_best, seconds):
    return recording(best=recorded_best, seconds=lambda _: seconds)


def two_kinds(path, limits=None):
    run = Run(path, limits)
    run.add(FAST, slower(17, 1.0))
    run.add(SLOW, slower(30, 2.0))
    return run


def test_kinds_are_measured_at_the_same_time_each_with_its_own_winner(tmp_path):
    run = two_kinds(tmp_path)
    fast, slow = run.run()
    assert (fast.best.index, slow.best.index) == (17, 30)
    assert (fast.best.device["name"], slow.best.device["name"]) == (FAST, SLOW)
    assert (fast.measured, slow.measured) == (40, 40)
    # As long as the slower kind takes alone: 40 candidates of 2 seconds on 2 devices.
    assert run.clock() == pytest.approx(40.0)


def test_records_name_kind_and_node_and_no_configuration_comes_twice(tmp_path):
    run = two_kinds(tmp_path)
    run.run()
    for name in (FAST, SLOW):
        own = run.records(name)
        assert sorted(record.index for record in own) == list(range(40))
        assert {record.device["node"] for record in own} == {"node 0", "node 1"}
    assert len(list(run.store.load())) == 80


def test_a_run_goes_on_from_the_log_of_each_kind_without_a_line_about_the_other(tmp_path, caplog):
    for trials, new in ((10, 10), (24, 14)):
        run = two_kinds(tmp_path, Limits(trials))
        summaries = run.run()
        assert [summary.trials for summary in summaries] == [trials, trials]
        assert [summary.measured for summary in summaries] == [new, new]
    assert "other devices" not in caplog.text


def test_workloads_of_one_kind_get_turns_while_another_kind_is_busy(tmp_path):
    run = Run(tmp_path)
    run.add(FAST, recording(name="a", seconds=lambda _: 1.0))
    run.add(FAST, recording(name="b", seconds=lambda _: 1.0))
    run.add(SLOW, recording(name="a", seconds=lambda _: 1.0))
    summaries = run.run()
    assert [summary.trials for summary in summaries] == [40, 40, 40]
    assert run.clock() <= 40.0  # that of the one kind; the other kind needs 20 seconds meanwhile


@pytest.mark.parametrize(
    ("places", "groups"),
    [
        ("a b c", ["0", "1", "2"]),
        ("a b a", ["02", "1"]),
        ("a b ab", ["012"]),
        ("ab cd bc e", ["012", "3"]),
        ("a e bc ab", ["1", "023"]),
    ],
)
def test_workloads_that_share_a_device_do_not_measure_at_the_same_time(places, groups, tmp_path):
    class Somewhere(SimulatedFleet):
        places = ()

    run = Run(tmp_path)
    for names in places.split():
        session = run.add(FAST, recording())
        session.measurer = Somewhere(1, SimulatedAnswers.of(recording()))
        session.measurer.places = [*names]
    numbers = {id(session): str(number) for number, session in enumerate(run.sessions)}
    found = ["".join(numbers[id(each)] for each in group) for group in _groups(run.sessions)]
    assert found == groups


def test_one_kind_alone_is_tuned_as_ever(tmp_path):
    run = Run(tmp_path)
    session = run.add(FAST, slower(17, 1.0))
    (summary,) = run.run()
    assert (summary.ended, summary.best.index) == (End.EXHAUSTED, 17)
    assert session.learner.in_thread


def test_a_kind_that_vanishes_ends_its_search_with_a_line_and_not_the_others(tmp_path):
    run = Run(tmp_path)
    lost = run.add(FAST, slower(17, 1.0), lost_s={0: 3.5, 1: 5.5})
    run.add(SLOW, slower(30, 2.0))
    gone, slow = run.run()
    assert gone.ended is End.FAILED
    assert gone.why == str(lost.error) == "no device is left to measure on"
    assert (slow.ended, slow.trials) == (End.EXHAUSTED, 40)
    assert gone.best is not None  # of what was measured before
    assert gone.trials == len(run.records(FAST)) == 8
    finished = {event.job: event.summary.ended for event in run.events if type(event) is Finished}
    assert finished == {f"bowl {FAST}": End.FAILED, f"bowl {SLOW}": End.EXHAUSTED}


def test_the_only_kind_that_vanishes_ends_the_run(tmp_path):
    run = Run(tmp_path)
    run.add(FAST, slower(17, 1.0), lost_s={0: 3.5, 1: 5.5})
    with pytest.raises(AutotuneError, match="no device is left"):
        run.run()


def test_all_searches_end_when_the_time_is_over(tmp_path):
    run = two_kinds(tmp_path)
    summaries = run.run(seconds=10.0)
    assert [summary.ended for summary in summaries] == [End.TIME, End.TIME]
    assert all(summary.trials < 40 for summary in summaries)
    assert run.clock() <= 12.0


def test_the_time_left_is_that_of_the_kind_that_takes_longest(tmp_path):
    run = Run(tmp_path, Limits(20))
    run.add(FAST, slower(17, 1.0))
    run.add(SLOW, slower(30, 4.0))
    run.run()
    measured = [event for event in run.events if type(event) is Measured]
    last_of_fast = [event for event in measured if event.job.endswith(FAST)][-1]
    assert last_of_fast.left_s > 20.0  # the slow one has still most of its 40 seconds to go
    assert measured[-1].left_s == 0.0


def test_an_interrupt_ends_all_searches_and_keeps_what_is_logged(tmp_path):
    run = two_kinds(tmp_path)
    pass_time = run.clock._wait_any

    def interrupted(tickets, seconds):
        if run.clock() >= 10.0:
            raise KeyboardInterrupt
        return pass_time(tickets, seconds)

    run.clock._wait_any = interrupted
    with pytest.raises(KeyboardInterrupt):
        run.run()
    assert len(run.records(FAST)) > 10
    assert len(run.records(SLOW)) > 5
    again = two_kinds(tmp_path)  # nothing is claimed any more
    assert [summary.trials for summary in again.run()] == [40, 40]


# -- what one kind learns from another ------------------------------------------------------------


class Listener(GridTuner):
    """Keeps the priors that it gets, with the number of its own measurements then."""

    learns_from_others = True

    def __init__(self, space):
        super().__init__(space, 0)
        self.priors = []

    def transfer(self, prior):
        self.priors.append((len(self.observations), prior))


def test_a_search_hears_of_other_kinds_when_these_have_measured_much_more(tmp_path):
    run = Run(tmp_path)
    first, second = recording(best=17, seconds=lambda _: 1.0), slower(17, 4.0)
    run.tuner = Listener(first.space)
    run.add(FAST, first)
    run.tuner = Listener(second.space)
    run.add(SLOW, second)
    run.run()
    heard = [prior.measurements for _, prior in run.tuners[1].priors]
    assert heard[0] >= 16
    assert all(b >= GROWTH * a for a, b in itertools.pairwise(heard))
    assert all(prior.sources == 1 for _, prior in run.tuners[1].priors)
    assert run.tuners[1].priors[0][0] < 16  # long before it knew so much itself


def test_what_is_learned_are_ranks_and_not_times(tmp_path):
    run = Run(tmp_path)
    run.add(FAST, slower(30, 1.0))
    other = run.add(SLOW, slower(30, 1.0))
    run.run()
    prior = OtherKinds(other, [run.sessions[0]])()
    expected = prior.at(np.arange(40))
    assert abs(int(expected.argmin()) - 30) <= 2
    assert expected.std() == pytest.approx(1.0, abs=0.3)


def test_records_of_many_nodes_are_those_of_one_kind(tmp_path):
    run = Run(tmp_path)
    first = run.add(FAST, slower(30, 1.0), width=8)
    run.add(SLOW, slower(30, 1.0))
    run.run()
    assert len({record.device["node"] for record in first.trials.recorded}) == 8
    prior = TransferPrior.of(first.trials.recorded, first.task.space)
    assert (prior.sources, prior.measurements) == (1, 40)
    devices = [without_node(record.device) for record in first.trials.recorded]
    assert devices[0] == {"kind": "simulated", "name": FAST}


def _early_of_slow(path, learns):
    """Return the first proposals of a slow kind, after those that need no results."""
    run = Run(path, Limits(24), tuner="model")
    run.add(FAST, recording(count=400, best=300, seconds=lambda _: 0.25), width=8)
    slow = run.add(SLOW, recording(count=400, best=310, seconds=lambda _: 4.0), width=1)
    slow.learner.learns_from_others = learns
    assert [summary.trials for summary in run.run()] == [24, 24]
    return [record.index for record in run.records(SLOW)[3:10]]


def test_the_model_tuner_looks_first_where_another_kind_was_fast(tmp_path):
    alone = _early_of_slow(tmp_path / "alone", False)
    told = _early_of_slow(tmp_path / "told", True)
    near = [sum(abs(index - 300) < 40 for index in found) for found in (alone, told)]
    assert near[1] > near[0]


def test_a_search_with_a_prior_of_its_own_does_not_follow_other_kinds(tmp_path):
    run = Run(tmp_path)
    first = run.add(FAST, slower(30, 1.0))
    run.run()
    prior = TransferPrior.of(first.trials.recorded, first.task.space)
    assert not make_tuner("model", first.task.space, 0, prior=prior).learns_from_others
    assert make_tuner("model", first.task.space, 0).learns_from_others
    assert not make_tuner("random", first.task.space, 0).learns_from_others
