"""Several workloads in one run: how time is divided, what ends it, and what the limits mean."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.errors import AutotuneError, UsageError
from autotune.measure.measurer import Measurer
from autotune.measure.result import MeasureResult
from autotune.measure.roofline import Ceiling
from autotune.measure.timing_policy import TimingPolicy
from autotune.task.task import Task
from autotune.tuner.run import portfolio
from autotune.tuner.run.events import End, Finished, MachineKnown, Measured, Noisy, Started
from autotune.tuner.run.limits import Deadline, Goal, Limits, TrialPace
from autotune.tuner.run.portfolio import FAIR, INFORMED, Portfolio, Prospect, Turns
from autotune.tuner.run.session import Session
from autotune.tuner.run.stop_conditions import MAX_REMEASURES
from autotune.tuner.search.baselines import GridTuner
from records import RecordStore

FAULTY = str(Path(__file__).parents[2] / "integration" / "faulty_templates" / "faulty.py")


# -- whose turn it is ------------------------------------------------------------------------


class Toy:
    """A workload without kernels: its best time follows a curve over its trials."""

    def __init__(self, curve, pace_s=1.0, weight=1.0, knows=True):
        self.curve = curve
        self.pace_s = pace_s
        self.weight = weight
        self.knows = knows
        self.bests_s = []
        self.served = -1

    def step(self, turn, trials=8):
        self.served = turn
        done = len(self.bests_s)
        self.bests_s += [self.curve(done + number + 1) for number in range(trials)]
        return trials * self.pace_s

    @property
    def prospect(self):
        pace_s = self.pace_s if self.bests_s else None
        gain = None
        if self.knows and len(self.bests_s) >= INFORMED and self.bests_s[-1]:
            gain = 1.0 - self.curve(10**9) / self.bests_s[-1]
        return Prospect(self.weight, self.bests_s, gain, pace_s, self.served)


def divide(toys, seconds, rule):
    """Give out so many seconds; return the weighted sum of the best times."""
    spent, turn = 0.0, 0
    while spent < seconds:
        spent += toys[rule(toys, turn)].step(turn)
        turn += 1
    return sum(toy.weight * toy.bests_s[-1] for toy in toys)


def by_gain(toys, turn):
    return Turns([toy.prospect for toy in toys]).next(turn)


def in_turn(toys, turn):
    return turn % len(toys)


def improving(t):
    """Falls from 10 to 1 over some hundred trials."""
    return 1.0 + 9.0 * math.exp(-t / 100)


def flat(t):
    """All there is to gain is gained after a few trials."""
    return 1.0 + 9.0 * math.exp(-t / 2)


@pytest.mark.parametrize("knows", [True, False], ids=["model", "no estimate"])
def test_a_pair_gets_further_than_in_turns(knows):
    ours = divide([Toy(flat, knows=knows), Toy(improving, knows=knows)], 300, by_gain)
    theirs = divide([Toy(flat), Toy(improving)], 300, in_turn)
    assert ours - 2.0 < 0.7 * (theirs - 2.0)  # 2.0 is the best there can be


@pytest.mark.parametrize("change", [{"weight": 5.0}, {"pace_s": 0.2}], ids=["weight", "pace"])
def test_what_weighs_more_or_is_measured_faster_comes_first(change):
    other, favoured = Toy(improving), Toy(improving, **change)
    divide([other, favoured], 200, by_gain)
    assert len(favoured.bests_s) > 2 * len(other.bests_s)


def test_no_workload_starves_however_little_is_expected_of_it():
    hopeless, nothing_works = Toy(lambda t: 1e-9), Toy(lambda t: None)
    toys = [hopeless, Toy(lambda t: 1e3 / t), nothing_works]
    last = [0, 0, 0]
    for turn in range(400):
        number = by_gain(toys, turn)
        toys[number].step(turn)
        last[number] = turn
        assert turn - min(last) <= len(toys) * FAIR + 2 * INFORMED


def test_workloads_that_little_is_known_of_come_first_in_turns():
    toys = [Toy(improving), Toy(flat), Toy(improving)]
    turns = []
    for turn in range(6):
        turns.append(by_gain(toys, turn))
        toys[turns[-1]].step(turn)
    assert turns == [0, 1, 2, 0, 1, 2]


def test_without_an_estimate_the_latest_doubling_of_trials_is_what_is_expected():
    bests_s = [None] * 2 + [4.0] * 14 + [3.0] * 16
    assert Prospect(1.0, bests_s, None, 1.0, 0).expected_gain == pytest.approx(0.25)
    assert Prospect(1.0, bests_s, 0.5, 1.0, 0).expected_gain == 0.5
    assert Prospect(1.0, [4.0] * 32, None, 1.0, 0).expected_gain == pytest.approx(1 / 32)
    assert Prospect(1.0, [None] * 31 + [4.0], None, 1.0, 0).expected_gain == 1.0
    assert Prospect(1.0, [None] * 32, None, 1.0, 0).rate == 0.0
    assert Prospect(2.0, bests_s, 0.5, 4.0, 0).rate == pytest.approx(2.0 * 3.0 * 0.5 / 4.0)


# -- sessions --------------------------------------------------------------------------------


class Clock:
    """Seconds pass when somebody says so."""

    now = 0.0

    def __call__(self):
        return self.now


class TimedMeasurer(Measurer):
    """Each candidate takes `pace_s`; its time is `cost(index)`."""

    policy = TimingPolicy()

    def __init__(self, clock, pace_s=1.0, cost=lambda index: 1.0 + index, machine=None, noise=()):
        self.clock = clock
        self.pace_s = pace_s
        self.cost = cost
        self.machine = machine
        self.noise = dict(noise)
        self.asked = []
        self.incumbents = []
        self.closed = 0

    def run(self, candidate):
        self.asked.append(candidate.config.index)
        self.incumbents.append(candidate.incumbent_s)
        self.clock.now += self.pace_s
        costs_s = (self.cost(candidate.config.index),)
        return MeasureResult(costs_s=costs_s, noise=self.noise.get(len(self.asked)))

    def ceiling(self):
        return self.machine

    def close(self):
        self.closed += 1


class Broken(TimedMeasurer):
    """Cannot measure."""

    def run(self, candidate):
        raise AutotuneError("the reference fails")


@pytest.fixture(scope="module")
def tasks():
    return [Task.from_reference(f"{FAULTY}:plain", {"n": n}) for n in (64, 128)]


@pytest.fixture
def run(tasks, tmp_path):
    """Tune workloads, each as (measurer, limits); what came of it."""
    store = RecordStore(tmp_path / "log.jsonl")

    def run(clock, *jobs, seconds=None, weights=(1.0, 1.0)):
        sessions = [
            Session(
                task, measurer, GridTuner(task.space, 0), store, 0, limits,
                job="" if len(jobs) == 1 else f"job {number}", weight=weight, clock=clock,
            )
            for number, (task, weight, (measurer, limits)) in enumerate(
                zip(tasks, weights, jobs, strict=False)
            )
        ]  # fmt: skip
        events = []
        summaries = Portfolio(sessions, events.append, Deadline(seconds, clock)).run()
        return summaries, events

    run.store = store
    return run


def test_time_ends_a_run_and_no_measurement_begins_after_it(run):
    clock = Clock()
    measurer = TimedMeasurer(clock)
    (summary,), _ = run(clock, (measurer, Limits()), seconds=10.5)
    assert summary.ended is End.TIME
    assert len(measurer.asked) == summary.trials == 11


def test_nothing_is_thought_or_prepared_that_there_will_be_no_time_to_use(run, monkeypatch):
    clock, thought, prepared = Clock(), [], []

    def preparations(_):
        while True:
            prepared.append(clock.now)
            yield

    monkeypatch.setattr(GridTuner, "think", lambda _: thought.append(clock.now))
    monkeypatch.setattr(GridTuner, "preparations", preparations)
    run(clock, (TimedMeasurer(clock), Limits()), seconds=28)
    # A second each: the batch that begins after 23 is the last one, and from 4 on few are left.
    assert thought == [0, 7, 15]
    assert max(prepared, default=0) == 0


def test_without_any_limit_a_run_ends_with_the_space(run, tasks):
    clock = Clock()
    (summary,), _ = run(clock, (TimedMeasurer(clock), Limits()))
    assert summary.ended is End.EXHAUSTED
    assert summary.trials == len(tasks[0].space.feasible_indices())


def test_what_comes_first_of_trials_and_time_counts(run):
    clock = Clock()
    (first,), _ = run(clock, (TimedMeasurer(clock), Limits(trials=3)), seconds=100)
    (second,), _ = run(clock, (TimedMeasurer(clock), Limits(trials=20)), seconds=4)
    assert (first.ended, first.trials) == (End.TRIALS, 3)
    assert (second.ended, second.trials) == (End.TIME, 7)


def test_a_goal_in_seconds_ends_a_run_also_a_resumed_one(run):
    clock = Clock()
    goal = Goal.parse("10 s")
    measurer = TimedMeasurer(clock, cost=lambda index: 14.0 - index)
    (summary,), _ = run(clock, (measurer, Limits(goal=goal)))
    assert (summary.ended, summary.why) == (End.GOAL, "the goal 10 s is reached")
    assert measurer.asked == [0, 1, 2, 3, 4]  # 10 s is reached at 4, within a batch
    resumed = TimedMeasurer(clock)
    (again,), _ = run(clock, (resumed, Limits(goal=goal)))
    assert (again.ended, again.trials, resumed.asked) == (End.GOAL, 5, [])


def test_a_goal_that_is_a_share_of_the_machine_is_judged_by_what_was_measured(run):
    clock = Clock()
    machine = Ceiling({"float32": 1e9}, 512.0)  # the arrays have 2 * 64 * 4 = 512 bytes: 1 s
    measurer = TimedMeasurer(clock, cost=lambda index: 6.0 - index, machine=machine)
    (summary,), events = run(clock, (measurer, Limits(goal=Goal.parse("0.4 of copy"))))
    assert summary.ended is End.GOAL
    assert measurer.asked == [0, 1, 2, 3, 4]  # 2 s; 1 s / 0.4 is 2.5 s
    assert summary.ceiling_s == 1.0
    (known,) = [event for event in events if isinstance(event, MachineKnown)]
    assert (known.machine.copy_bytes_s, known.ceiling_s) == (512.0, 1.0)
    with pytest.raises(UsageError, match="is not known here"):
        run(clock, (TimedMeasurer(clock), Limits(goal=Goal.parse("0.4 of copy"))))


class Disturbed(TimedMeasurer):
    """What the machine can do is measured anew each time; the last figure stays."""

    def __init__(self, clock, cost, copy_bytes_s):
        super().__init__(clock, cost=cost)
        self.copy_bytes_s = list(copy_bytes_s)
        self.ceilings = 0

    def ceiling(self):
        self.ceilings += 1
        rates = self.copy_bytes_s
        return Ceiling({"float32": 1e9}, rates.pop(0) if len(rates) > 1 else rates[0])


def test_a_goal_by_a_disturbed_machine_is_no_goal(run):
    clock = Clock()
    # The arrays' 512 bytes take 4 s, as measured first, and 1 s in truth: 0.5 of that is 2 s.
    measurer = Disturbed(clock, lambda index: 9.0 - index, [128.0, 512.0, 64.0])
    (summary,), events = run(clock, (measurer, Limits(goal=Goal.parse("0.5 of copy"))))
    # 8 s is reached at 1 and is not enough; what was proposed with it is measured all the same.
    assert measurer.asked == [0, 1, 2, 3, 4, 5, 6, 7]
    assert (summary.ended, summary.best.cost_s, summary.ceiling_s) == (End.GOAL, 2.0, 1.0)
    known = [event.ceiling_s for event in events if isinstance(event, MachineKnown)]
    assert known == [4.0, 1.0]
    assert measurer.ceilings == 3  # at first, at 8 s, and at 2 s


def test_what_is_faster_than_the_machine_has_it_measured_again_a_few_times(run):
    clock = Clock()
    measurer = Disturbed(clock, lambda index: 0.9 - index / 100, [512.0])
    (summary,), events = run(clock, (measurer, Limits(trials=24, batch=2)))
    assert measurer.ceilings == 1 + MAX_REMEASURES
    assert sum(isinstance(event, MachineKnown) for event in events) == 1
    measurer = Disturbed(clock, lambda index: 0.6 - index / 100, [512.0, 2048.0])
    (summary,), _ = run(clock, (measurer, Limits(trials=28, batch=2)))
    assert (summary.ceiling_s, measurer.ceilings) == (0.25, 2)


def test_a_machine_that_cannot_be_measured_again_is_believed(run, caplog):
    class Once(Disturbed):
        def ceiling(self):
            if self.ceilings:
                raise AutotuneError("no worker starts")
            return super().ceiling()

    clock = Clock()
    measurer = Once(clock, lambda index: 9.0 - index, [128.0])
    (summary,), _ = run(clock, (measurer, Limits(goal=Goal.parse("0.5 of copy"))))
    assert (summary.ended, measurer.asked) == (End.GOAL, [0, 1])
    assert "no worker starts" in caplog.text


def test_a_goal_in_operations_is_refused_where_nobody_counts_them(run):
    clock = Clock()
    measurer = TimedMeasurer(clock)
    with pytest.raises(UsageError, match="does not say how many operations"):
        run(clock, (measurer, Limits(goal=Goal.parse("2 GFLOPS"))))
    assert measurer.asked == []


def test_candidates_are_told_the_best_so_far_to_race_against(run):
    clock = Clock()
    measurer = TimedMeasurer(clock, cost=lambda index: 30.0 - index)
    run(clock, (measurer, Limits(trials=4, batch=2)))
    assert measurer.asked == [0, 1, 2, 3]
    assert measurer.incumbents == [None, 30.0, 30.0, 28.0]  # the best before each batch


def test_several_workloads_end_each_for_its_own_reason(run):
    clock = Clock()
    one, other = TimedMeasurer(clock), TimedMeasurer(clock)
    summaries, events = run(clock, (one, Limits(trials=3)), (other, Limits()), seconds=20)
    assert [s.ended for s in summaries] == [End.TRIALS, End.TIME]
    assert len(one.asked) == 3
    assert len(other.asked) == summaries[1].trials >= 15
    assert len(run.store.load()) == summaries[0].trials + summaries[1].trials
    assert [type(event) for event in events[:2]] == [Started, Started]
    assert [event.job for event in events if isinstance(event, Finished)] == ["job 0", "job 1"]


def test_time_goes_where_weighted_time_is_to_be_gained(run):
    clock = Clock()
    short, long = (TimedMeasurer(clock, cost=cost) for cost in (lambda i: 1e-3, lambda i: 40.0 - i))
    run(clock, (short, Limits(batch=4)), (long, Limits(batch=4)), seconds=50)
    assert len(short.asked) < len(long.asked)
    assert len(short.asked) >= INFORMED


def test_a_measurement_is_told_with_the_time_that_is_left(run):
    clock = Clock()
    jobs = [(TimedMeasurer(clock, pace_s), Limits(trials=10)) for pace_s in (1.0, 2.0)]
    _, events = run(clock, *jobs)
    measured = [event for event in events if isinstance(event, Measured)]
    assert measured[0].left_s is None  # nothing is known of the other's pace
    assert measured[-2].left_s == pytest.approx(2.0, rel=0.2)
    assert measured[-1].left_s == 0.0
    run.store.path.unlink()
    _, events = run(clock, (TimedMeasurer(clock), Limits()), seconds=12)
    left = [event.left_s for event in events if isinstance(event, Measured)]
    assert left == pytest.approx([12.0 - number for number in range(1, 13)])


def test_a_workload_that_cannot_be_measured_does_not_stop_the_others(run):
    clock = Clock()
    broken, sound = Broken(clock), TimedMeasurer(clock)
    summaries, _ = run(clock, (broken, Limits(trials=3)), (sound, Limits(trials=3)))
    assert [s.ended for s in summaries] == [End.FAILED, End.TRIALS]
    assert summaries[0].why == "the reference fails"
    assert summaries[0].best is None
    with pytest.raises(AutotuneError, match="the reference fails"):
        run(clock, (broken, Limits(trials=9)))


def test_only_the_latest_workloads_keep_their_processes(run, monkeypatch):
    monkeypatch.setattr(portfolio, "MAX_OPEN", 1)
    clock = Clock()
    one, other = TimedMeasurer(clock), TimedMeasurer(clock)
    run(clock, (one, Limits(trials=INFORMED)), (other, Limits(trials=INFORMED)))
    assert one.closed >= 1
    assert other.closed >= 1


def test_a_noisy_machine_is_told_once_until_it_is_calm_again(run):
    clock = Clock()
    measurer = TimedMeasurer(clock, noise={2: 0.5, 3: 0.4, 4: 0.01, 5: 0.3})
    _, events = run(clock, (measurer, Limits(trials=6)))
    assert [event.noise for event in events if isinstance(event, Noisy)] == [0.5, 0.3]


# -- limits ----------------------------------------------------------------------------------


def test_a_deadline_counts_down_to_zero():
    clock = Clock()
    deadline = Deadline(3.0, clock)
    clock.now = 2.0
    assert (deadline.left_s, deadline.over) == (1.0, False)
    clock.now = 4.0
    assert (deadline.left_s, deadline.over) == (0.0, True)
    assert Deadline(5.0, clock, begin=1.0).left_s == 2.0
    assert Deadline(None, clock).left_s is None
    assert not Deadline(None, clock).over


def test_the_pace_is_that_of_the_latest_batches_and_of_the_current_one():
    clock = Clock()
    paces = TrialPace(clock)
    assert paces.mean_s is None
    for seconds in (100.0, 1.0, 1.0, 1.0, 1.0):
        with paces.batch():
            clock.now += seconds
            paces.count()
            assert paces.mean_s is not None
    assert paces.mean_s == 1.0
    with paces.batch():
        clock.now += 2.0
        paces.count()
        assert paces.mean_s == pytest.approx(6.0 / 5)


@pytest.mark.parametrize("changes", [{"trials": -1}, {"batch": 0}, {"patience": 2.0}])
def test_limits_that_make_no_sense_are_refused(changes):
    with pytest.raises(UsageError):
        replace(Limits(), **changes)
