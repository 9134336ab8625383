"""A search on several devices: nothing is measured twice, limits hold, the log is in order."""

import itertools

import numpy as np
import pytest
from support.fake_measurer import FakeMeasurer
from support.parallel_runs import Search, fleet, recording

from autotune.errors import AutotuneError
from autotune.measure.timing_policy import TimingPolicy
from autotune.tuner.base import Observation, Tuner
from autotune.tuner.factory import make_tuner
from autotune.tuner.run.events import End, Measured
from autotune.tuner.run.limits import Goal, Limits
from autotune.tuner.run.parallel.candidates_in_flight import FACTOR, CandidatesInFlight
from autotune.tuner.run.parallel.parallel_session import ParallelSession, new_session
from autotune.tuner.run.portfolio import Portfolio
from autotune.tuner.run.session import Session
from autotune.tuner.run.trials import Trials
from autotune.tuner.search.baselines import GridTuner
from benchmarks.simulated_fleet import RecordedTask, VirtualClock
from records import RecordStore


def indices(store):
    return [record.index for record in store.load()]


def uneven(index):
    """Return seconds that differ from candidate to candidate, so that they end out of order."""
    return 0.5 + index * 7919 % 31 / 10


def test_a_measurer_says_which_session_it_gets(store):
    task = RecordedTask(recording())
    clock = VirtualClock()
    parts = (GridTuner(task.space, 0), store, 0, Limits())
    assert type(new_session(task, fleet(recording(), 1, clock), *parts)) is ParallelSession
    assert type(new_session(task, FakeMeasurer(), *parts)) is Session


@pytest.mark.parametrize("width", [1, 3, 8, 64])
@pytest.mark.parametrize("tuner", ["grid", "random", "genetic"])
def test_each_configuration_of_a_space_is_measured_once(store, width, tuner):
    recorded = recording(seconds=uneven, failing=(3, 20))
    made = make_tuner(tuner, recorded.space, 1)
    search = Search(store, recorded, width, tuner=made)
    summary = search.run()
    assert summary.ended is End.EXHAUSTED
    assert sorted(indices(store)) == list(range(40))
    assert (summary.trials, summary.measured, summary.best.index) == (40, 40, 17)
    assert summary.failures == {"RUNTIME_DEVICE": 2}
    assert [o.index for o in made.observations] == list(range(40))


def test_random_widths_limits_and_seconds_keep_every_promise(tmp_path):
    rng = np.random.default_rng(0)
    for number in range(40):
        width, trials = int(rng.integers(1, 12)), int(rng.integers(1, 45))
        spent = rng.exponential(1.0, 40) * rng.integers(0, 2, 40)
        lost = {d: float(rng.uniform(0, 20)) for d in range(1, width) if rng.random() < 0.3}
        store = RecordStore(tmp_path / f"{number}.jsonl")
        recorded = recording(seconds=lambda index, spent=spent: spent[index])
        made = make_tuner("random", recorded.space, number)
        limits = Limits(trials, batch=int(rng.integers(1, 10)))
        search = Search(store, recorded, width, limits, made, lost_s=lost)
        summary = search.run()
        found = indices(store)
        assert len(found) == len(set(found)) == summary.trials == min(trials, 40)
        assert found[0] == search.task.default_index or width > 1
        assert len(search.session._flight) == 0


def test_the_default_is_submitted_first_and_results_are_logged_as_they_end(store):
    recorded = recording(seconds=uneven)
    search = Search(store, recorded, 4, Limits(12))
    submitted, submit = [], search.measurer.submit

    def noted(candidate):
        submitted.append(candidate.config.index)
        submit(candidate)

    search.measurer.submit = noted
    search.run()
    assert submitted[0] == search.task.default_index == 20
    ends = [event.record.index for event in search.events if isinstance(event, Measured)]
    assert indices(store) == ends != submitted
    assert sorted(ends) == sorted(submitted)


def test_the_same_seeds_give_the_same_log(tmp_path):
    def log(name):
        store = RecordStore(tmp_path / name)
        recorded = recording(seconds=uneven)
        Search(store, recorded, 5, Limits(30), make_tuner("model", recorded.space, 3)).run()
        return indices(store)

    assert log("one") == log("other")


def test_each_record_names_its_machine_and_all_are_of_one_kind_of_device(store):
    search = Search(store, width=3, limits=Limits(12))
    search.run()
    devices = [record.device for record in store.load()]
    assert {device["node"] for device in devices} == {"node 0", "node 1", "node 2"}
    assert {device["name"] for device in devices} == {"simulated device"}
    again = Search(store, width=2, limits=Limits(20))
    summary = again.run()
    assert (summary.trials, summary.measured) == (20, 8)
    assert len(set(indices(store))) == 20


@pytest.mark.parametrize("width", [1, 2, 4, 8, 32])
def test_no_device_waits_before_the_end(store, width):
    recorded = recording(400, seconds=uneven)
    search = Search(store, recorded, width, Limits(320))
    search.run()
    assert search.measurer.busy_s == pytest.approx(sum(map(uneven, indices(store))))
    # The last candidates end at different times: that is all.
    assert width * search.clock() - search.measurer.busy_s <= width * 3.5


# -- limits ----------------------------------------------------------------------------------


@pytest.mark.parametrize("trials", [1, 2, 7, 16, 39])
def test_the_number_of_trials_is_exact(store, trials):
    search = Search(store, width=8, limits=Limits(trials))
    summary = search.run()
    assert (summary.ended, summary.trials) == (End.TRIALS, trials)
    assert len(store.load()) == trials


def test_nothing_begins_after_the_time_and_what_runs_is_recorded(store):
    recorded = recording(400, seconds=lambda index: 2.0)
    search = Search(store, recorded, 4, seconds=21.0)
    summary = search.run()
    assert summary.ended is End.TIME
    assert summary.trials == 44  # eleven rounds of four, the last of which began after 20 s
    assert search.clock() == 22.0


def test_a_goal_ends_a_run_and_what_is_queued_is_taken_back(store):
    search = Search(store, recording(seconds=uneven), 4, Limits(goal=Goal.parse("1 s")))
    summary = search.run()
    assert (summary.ended, summary.best.index) == (End.GOAL, 17)
    found = indices(store)
    assert 17 in found[-5:]  # three others ran, and its device had begun with the next
    other = Trials(search.task, store, TimingPolicy(), 0, device=search.measurer.device)
    other.new_records()
    assert all(other.claim(index) for index in range(40) if index not in found)
    again = Search(store, limits=Limits(goal=Goal.parse("1 s"))).run()
    assert (again.ended, again.measured) == (End.GOAL, 0)


class Sure(GridTuner):
    """Expects nothing more after some measurements."""

    estimates_gain = True

    def expected_gain(self):
        return 0.001 if len(self.observations) >= 8 else 0.5


def test_patience_ends_a_run(store):
    recorded = recording(200)
    tuner = Sure(recorded.space, 0)
    limits = Limits(patience=0.01)
    summary = Search(store, recorded, 4, limits, tuner).run()
    assert summary.ended is End.PATIENCE
    assert 16 <= summary.trials <= 24
    assert "are expected to gain 0.1 %" in summary.why


# -- what is in flight -----------------------------------------------------------------------


class Watching(GridTuner):
    """Notes what is pending whenever it is asked."""

    def __init__(self, space, seed):
        super().__init__(space, seed)
        self.pendings = []

    def ask(self, n):
        self.pendings.append(len(self.pending))
        return super().ask(n)


def test_the_tuner_is_asked_with_what_is_in_flight_pending_and_for_a_few_more_than_devices(store):
    recorded = recording(200, seconds=uneven)
    tuner = Watching(recorded.space, 0)
    Search(store, recorded, 8, Limits(100), tuner).run()
    most = FACTOR * 8
    assert tuner.pendings[0] == 0
    assert all(6 <= pending <= most for pending in tuner.pendings[2:-4])


def test_what_is_in_flight_is_claimed_and_nothing_else(store):
    search = Search(store, width=4, limits=Limits(12, batch=4))
    search.session.open()
    search.session.step()
    done, flying = set(indices(store)), set(search.session._flight._indices)
    assert len(done) == 4
    assert flying
    other = Trials(search.task, store, TimingPolicy(), 0, device=search.measurer.device)
    other.new_records()
    free = {index for index in range(40) if other.claim(index)}
    assert free == set(range(40)) - done - flying
    other.close()
    search.session.close()
    assert all(other.claim(index) for index in flying)


def test_what_another_run_measures_is_left_to_it_and_taken_at_the_end_if_it_gives_up(store):
    search = Search(store, width=4)
    other = Trials(search.task, store, TimingPolicy(), 0, device=search.measurer.device)
    assert other.claim(1)
    assert other.claim(2)
    take = search.measurer.next_result
    left = []

    def noted():
        if search.session._exhausted and not left:
            left.append(1)
            other.close()
            assert other.claim(2)
        return take()

    search.measurer.next_result = noted
    summary = search.run()
    assert summary.ended is End.EXHAUSTED
    assert indices(store)[-1] == 1
    assert sorted(indices(store)) == [0, 1, *range(3, 40)]


class Refusing(RecordedTask):
    """Refuses every third configuration, which the space does not know."""

    def refusal(self, index):
        return "third" if index % 3 == 0 else super().refusal(index)


def test_refused_proposals_are_no_trials_and_others_take_their_place(store):
    recorded = recording()
    task = Refusing(recorded)
    tuner = GridTuner(task.space, 0)
    summary = Search(store, recorded, 4, Limits(26), tuner, task=task).run()
    assert (summary.ended, summary.trials) == (End.TRIALS, 26)
    assert summary.refused["third"] >= 13
    assert all(index % 3 for index in indices(store))
    assert {o.error for o in tuner.observations if o.index % 3 == 0} == {"INSTANTIATION_ERROR"}


# -- what goes wrong -------------------------------------------------------------------------


def test_what_a_lost_device_was_at_is_measured_elsewhere_once(store):
    lost = {0: 3.0, 1: 3.5, 2: 11.0}
    search = Search(store, recording(seconds=uneven), 4, lost_s=lost)
    summary = search.run()
    assert summary.ended is End.EXHAUSTED
    assert sorted(indices(store)) == list(range(40))
    assert search.measurer.width == 1
    assert {record.device["node"] for record in store.load()[-10:]} == {"node 3"}


def test_when_all_devices_are_lost_the_run_ends_in_one_line_and_another_goes_on(store):
    search = Search(store, width=2, lost_s={0: 5.5, 1: 9.5})
    with pytest.raises(AutotuneError, match=r"^no device is left to measure on$"):
        search.run()
    assert len(indices(store)) == 14  # 5 and 9
    summary = Search(store, width=2).run()
    assert (summary.trials, summary.measured) == (40, 26)
    assert sorted(indices(store)) == list(range(40))


def test_devices_that_are_lost_after_the_limit_cost_only_what_they_were_at(store, caplog):
    search = Search(store, width=2, limits=Limits(goal=Goal.parse("1.5 s")), lost_s={})
    search.measurer.next_result = losing_after(search.measurer.next_result, best=17)
    summary = search.run()
    assert (summary.ended, summary.best.index) == (End.GOAL, 17)
    assert "what was still measured is lost: no device is left" in caplog.text


def losing_after(take, best):
    """Return `next_result` that loses all devices after the best was measured."""
    over = []

    def next_result():
        if over:
            raise AutotuneError("no device is left")
        candidate, result = take()
        if candidate.config.index == best:
            over.append(1)
        return candidate, result

    return next_result


@pytest.mark.parametrize("after", [0, 1, 9])
def test_an_interrupted_run_loses_what_was_in_flight_and_is_resumed(store, after):
    search = Search(store, width=4)
    take, calls = search.measurer.next_result, itertools.count()

    def next_result():
        if next(calls) == after:
            raise KeyboardInterrupt
        return take()

    search.measurer.next_result = next_result
    with pytest.raises(KeyboardInterrupt):
        search.run()
    assert len(store.load()) == after
    again = Search(store, width=4)
    assert again.run().measured == 40 - after
    assert sorted(indices(store)) == list(range(40))


# -- several workloads -----------------------------------------------------------------------


def test_several_workloads_are_settled_when_another_gets_its_turn(store):
    clock = VirtualClock()
    sessions = []
    for name in ("one", "other", "third"):
        recorded = recording(name=name, seconds=uneven)
        task = RecordedTask(recorded)
        parts = (GridTuner(task.space, 0), store, 0, Limits(30, batch=4))
        measurer = fleet(recorded, 4, clock)
        sessions.append(new_session(task, measurer, *parts, job=name, clock=clock))
    flying = []

    def on_event(event):
        if isinstance(event, Measured):
            flying.append([name for name, s in zip("abc", sessions, strict=True) if s._flight])

    summaries = Portfolio(sessions, on_event).run()
    assert [(s.ended, s.trials, s.measured) for s in summaries] == [(End.TRIALS, 30, 30)] * 3
    assert max(map(len, flying)) == 2  # the one that has its turn, and the one before
    by_workload = {}
    for record in store.load():
        by_workload.setdefault(record.template, []).append(record.index)
    assert [len(set(found)) for found in by_workload.values()] == [30, 30, 30]


def test_of_several_workloads_one_without_devices_fails_and_lets_go_of_its_claims(store):
    clock = VirtualClock()
    sessions = []
    for name, lost in (("lost", {0: 1.5, 1: 2.5}), ("sound", None)):
        recorded = recording(name=name)
        task = RecordedTask(recorded)
        measurer = fleet(recorded, 2, clock, lost_s=lost)
        parts = (GridTuner(task.space, 0), store, 0, Limits(20))
        sessions.append(new_session(task, measurer, *parts, job=name, clock=clock))
    summaries = Portfolio(sessions).run()
    assert [s.ended for s in summaries] == [End.FAILED, End.TRIALS]
    assert summaries[0].why == "no device is left to measure on"
    assert len(sessions[0]._flight) == 0


# -- how many are in flight ------------------------------------------------------------------


class Counting:
    """Devices, and how many candidates were submitted."""

    def __init__(self, width, overlap=False):
        self.width = width
        self.overlap = overlap
        self.submitted = 0

    def submit(self, candidate):
        self.submitted += 1


@pytest.mark.parametrize("width", [1, 2, 3, 4, 8, 32, 100])
def test_there_is_always_one_more_in_flight_than_devices_but_not_many_more(width):
    flight = CandidatesInFlight(Counting(width))
    first = flight.missing(float("inf"))
    assert width + 1 <= first <= max(width + 1, FACTOR * width + 1)
    assert flight.missing(width) == width
    assert flight.missing(0) == 0
    assert CandidatesInFlight(Counting(width, overlap=True)).missing(1e9) == 2 * width


def test_the_pending_of_every_tuner_is_never_proposed_again():
    space = recording(60).space
    for name in ("model", "local", "genetic", "random", "grid"):
        tuner: Tuner = make_tuner(name, space, 0)
        asked, pending = [], []
        while found := tuner.ask(2):
            asked += found
            pending += found
            if len(pending) > 8:
                first, *pending = pending
                tuner.tell([Observation(first, 1.0 + abs(first - 17))])
        assert len(asked) == len(set(asked)) == 60


def test_of_several_devices_what_is_pending_counts_towards_the_start_of_the_model(store):
    recorded = recording(60)
    tuners = [make_tuner("model", recorded.space, 0) for _ in range(2)]
    one, several = tuners
    parts = (
        RecordedTask(recorded),
        fleet(recorded, 8, VirtualClock()),
        several,
        store,
        0,
        Limits(),
    )
    new_session(*parts)
    for tuner in tuners:
        first = tuner.ask(8)
        tuner.tell([Observation(index, 1.0 + abs(index - 17)) for index in first[:3]])
    assert (one.asynchronous, several.asynchronous) == (False, True)
    assert [tuner._informed() for tuner in tuners] == [False, True]
    one.tell([Observation(index, 1.0 + abs(index - 17)) for index in first[3:]])
    assert one._informed()
