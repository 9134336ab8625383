"""The tuning loop: what it records, what it resumes from, and what an interruption leaves."""

import re
import threading
import time
from pathlib import Path

import pytest
from fake_measurer import FakeMeasurer, run
from footprint import wait_for

import autotune
from autotune import te
from autotune.builder import best_config
from autotune.errors import UsageError
from autotune.measure.policy import TimingPolicy
from autotune.task import Task, code_hash
from autotune.tuner.base import Observation
from autotune.tuner.events import End, Finished, Measured, Started
from autotune.tuner.grid import GridTuner
from autotune.tuner.random import RandomTuner
from autotune.tuner.trials import Trials
from records import Record, RecordStore

PLAIN = f"{Path(__file__).parent / 'faulty_templates' / 'faulty.py'}:plain"


def test_every_measurement_is_a_record_with_all_that_it_depends_on(task, store):
    run(task, store, 3, FakeMeasurer(failing=[1]))
    first, failed, _ = store.load()
    assert first.workload == task.workload.to_json()
    assert (first.target, first.seed) == ("llvm", 0)
    assert first.config == task.space.config(0).to_json()
    assert first.policy == TimingPolicy().to_json()
    assert first.device["kind"] == "cpu"
    assert first.versions["numpy"]
    assert first.fingerprints == {**task.fingerprints, "code": "0"}
    assert (first.costs_s, first.build_s) == ((1.0,), 0.5)
    assert failed.error == {"code": "RUN_TIMEOUT", "stage": "run", "message": "slow"}
    assert failed.costs_s is None


def test_a_record_rebuilds_its_schedule_without_the_template(task, store):
    run(task, store, 3)
    A = te.placeholder((64,), name="A")
    B = te.compute((64,), lambda i: A[i] + 1, name="B")
    for record in store.load():
        s = te.create_schedule(B.op, steps=record.steps)
        loops = autotune.lower(s, [A, B], name="plain")
        assert code_hash(loops) == code_hash(task.final(record.index))


def test_a_finished_run_measures_nothing_again_and_a_larger_number_continues(task, store):
    _, first = run(task, store, 5, FakeMeasurer(failing=[1, 2]))
    again, second = run(task, store, 5)
    more, third = run(task, store, 8)
    assert second.asked == []
    assert (again.trials, again.measured, again.failures) == (5, 0, {"RUN_TIMEOUT": 2})
    assert (more.trials, more.measured) == (8, 3)
    indices = [record.index for record in store.load()]
    assert len(indices) == len(set(indices)) == 8
    assert not set(first.asked) & set(third.asked)


def test_records_of_other_workloads_and_targets_do_not_count(task, store):
    run(task, store, 2)
    for other in (
        Task.from_reference(PLAIN, {"n": 128}),
        Task.from_reference(PLAIN, {"n": 64}, "llvm -threads=1"),
    ):
        _, measurer = run(other, store, 2)
        assert len(measurer.asked) >= 2
    assert len(store.load()) == 6


def test_the_tuner_is_told_what_the_log_knows(task, store):
    run(task, store, 3, FakeMeasurer(failing=[1]))
    tuner = GridTuner(task.space, 0)
    run(task, store, 3, tuner=tuner)
    assert tuner.observations == [
        Observation(0, 1.0),
        Observation(1, None, "RUN_TIMEOUT"),
        Observation(2, 3.0),
    ]


def changed(record, **fields):
    return Record.from_json(record.to_json() | fields)


def test_records_of_an_earlier_version_of_the_template_are_neither_trials_nor_told(
    task, store, caplog
):
    run(task, store, 2)
    first, second = store.load()
    store.path.unlink()
    gone = {"index": 0, "values": {"former_knob": 1}}
    edited = {**first.fingerprints, "template": "0123"}
    store.append([changed(first, fingerprints=edited), changed(first, config=gone), second])
    tuner = GridTuner(task.space, 0)
    summary, measurer = run(task, store, 2, tuner=tuner)
    assert (summary.trials, summary.measured) == (2, 1)
    assert measurer.asked[0] == 0  # measured again, beside the old record
    assert [o.index for o in tuner.observations] == [0, 1]
    assert [r.index for r in store.load()] == [0, 0, 1, 0]
    (message,) = caplog.messages
    assert message == (
        "2 records of plain(n=64) were measured with an earlier version of this template and are "
        "not used"
    )


def test_a_build_does_not_use_records_of_an_earlier_version(task, store, caplog):
    run(task, store, 2)
    fast, slow = store.load()
    old = changed(fast, fingerprints={**fast.fingerprints, "template": "0123"})
    assert best_config(task, [old, slow])[0] == slow
    assert "1 record of plain(n=64) was measured with an earlier version" in caplog.text
    assert best_config(task, [changed(old, fingerprints={}), slow])[0].index == fast.index


class Meanwhile(FakeMeasurer):
    """Does something while candidate 1 is measured."""

    def __init__(self, do):
        super().__init__()
        self.do = do

    def measure(self, inputs, still_wanted=None):
        for measured in super().measure(inputs, still_wanted):
            if self.asked == [0, 1]:
                self.do()
            yield measured


def test_what_another_run_logs_counts_and_what_it_measures_is_left_to_it(task, store):
    others = FakeMeasurer()
    tuner = GridTuner(task.space, 0)
    events = []
    summary, measurer = run(
        task,
        store,
        5,
        Meanwhile(lambda: run(task, store, 3, others)),
        tuner,
        on_event=events.append,
    )
    assert measurer.asked == [0, 1, 4]
    assert others.asked[:2] == [2, 3]  # 0 is there, and 1 is being measured
    assert [record.index for record in store.load()] == [0, 2, 3, 1, 4]
    assert [o.index for o in tuner.observations] == [0, 1, 2, 3, 4]
    assert (summary.trials, summary.measured) == (5, 3)
    assert [event.trial for event in events if isinstance(event, Measured)] == [1, 4, 5]


def test_of_two_records_of_one_configuration_the_first_counts(task, store, tmp_path):
    elsewhere = RecordStore(tmp_path / "elsewhere.jsonl")
    run(task, elsewhere, 2, FakeMeasurer(failing=[1]))
    failed = elsewhere.load()[1]
    tuner = GridTuner(task.space, 0)
    summary, _ = run(task, store, 3, Meanwhile(lambda: store.append([failed])), tuner)
    assert [(r.index, r.ok) for r in store.load()] == [(0, True), (1, False), (2, True)]
    assert (summary.trials, summary.measured) == (3, 2)
    assert [o.ok for o in tuner.observations] == [True, False, True]


def test_what_another_run_gave_up_is_measured_when_nothing_else_is_left(task, store):
    feasible = len(task.space.feasible_indices())
    other = Trials(task, store, TimingPolicy(), 0)
    assert other.claim(1)
    assert other.claim(2)
    summary, measurer = run(task, store, feasible, Later(task, other))
    assert measurer.asked.index(1) == feasible - 2
    assert 2 not in measurer.asked
    assert summary.ended is End.EXHAUSTED
    assert summary.trials == feasible - 1


class Later(FakeMeasurer):
    """Another run gives up candidate 1 while this one measures the last of the others."""

    def __init__(self, task, other):
        super().__init__()
        self.last = task.space.feasible_indices()[-1]
        self.other = other

    def measure(self, inputs, still_wanted=None):
        for candidate, result in super().measure(inputs, still_wanted):
            if candidate.config.index == self.last:
                self.other.close()
                assert self.other.claim(2)
            yield candidate, result


class Foreseeing(FakeMeasurer):
    """Notes what it is told may come next, and when."""

    def __init__(self, overlap=True):
        super().__init__()
        self.overlap = overlap
        self.foreseen = []

    def foresee(self, inputs):
        indices = [candidate.config.index for candidate in inputs]
        if indices not in [told for _, told in self.foreseen]:
            self.foreseen.append((len(self.asked), indices))


def test_beside_a_device_of_its_own_the_next_batch_is_asked_for_ahead(task, store):
    _, measurer = run(task, store, 12, Foreseeing(), batch=5)
    tried, again = measurer.asked[:12], measurer.again
    assert len(set(tried)) == 12
    # Batches of four (the default is proposed twice), five and three: half of each is left then.
    assert measurer.foreseen == [(0, tried[:1]), (2, tried[4:9]), (7, tried[9:])]
    assert measurer.asked[12:] == again
    assert len(store.load()) == 12
    store.path.unlink()
    _, measurer = run(task, store, 12, Foreseeing(overlap=False), batch=5)
    assert measurer.foreseen == [(0, tried[:1])]


class Holding(GridTuner):
    """Has its last proposals held back; notes how many it was asked for."""

    held_back = 1

    def __init__(self, space, seed):
        super().__init__(space, seed)
        self.wanted = []

    def ask(self, n):
        self.wanted.append(n)
        return super().ask(n)


def test_what_is_held_back_of_a_batch_is_built_first_of_the_next_and_none_is_left(task, store):
    tuner = Holding(task.space, 0)
    _, measurer = run(task, store, 20, Foreseeing(overlap=False), tuner, batch=8)
    tried = measurer.asked[:20]
    assert tried == task.space.feasible_indices()[:20].tolist()
    # At first the default is proposed twice, and one is asked for in its place.
    assert measurer.foreseen == [(0, tried[:1]), (8, tried[8:9]), (16, tried[16:17])]
    assert tuner.wanted == [8, 1, 8, 3]
    assert len(tuner.observations) == len(tuner.seen) == 20


@pytest.mark.parametrize(
    ("measurer", "batch", "wanted"),
    [
        pytest.param(FakeMeasurer(), 8, [7, 8, 5], id="where nothing is built"),
        pytest.param(Foreseeing(), 20, [19, 1], id="where the next batch is asked for ahead"),
        pytest.param(Foreseeing(overlap=False), 7, [6, 7, 7], id="of few"),
    ],
)
def test_nothing_is_held_back(task, store, measurer, batch, wanted):
    tuner = Holding(task.space, 0)
    run(task, store, 20, measurer, tuner, batch=batch)
    assert tuner.wanted == wanted


def test_what_was_held_back_is_measured_when_the_space_has_no_more(task, store):
    whole = len(task.space.feasible_indices())
    summary, measurer = run(
        task, store, None, Foreseeing(overlap=False), Holding(task.space, 0), batch=8
    )
    assert summary.ended is End.EXHAUSTED
    assert len(set(measurer.asked)) == summary.trials == whole


def test_what_is_held_back_is_built_as_soon_as_builders_wait_for_the_tuner(task, store):
    class Slow(Holding):
        def think(self):
            wait_for(lambda: len(measurer.foreseen) > 1)

    class Hasty(Foreseeing):
        def measure(self, inputs, still_wanted=None):
            return super().measure(list(inputs), still_wanted)  # all are built before any runs

    measurer = Hasty(overlap=False)
    run(task, store, 12, measurer, Slow(task.space, 0), batch=8)
    assert measurer.foreseen[1] == (0, measurer.asked[8:9])


def test_a_batch_measured_in_parts_asks_ahead_once_and_loses_no_proposal(task, store):
    tuner = GridTuner(task.space, 0)
    _, measurer = run(task, store, 41, Foreseeing(), tuner, batch=20)
    assert len(measurer.foreseen) == 2  # the default; the rest with 4 left, a part of their own
    proposed = list(dict.fromkeys(measurer.asked))
    assert proposed == [int(i) for i in task.space.feasible_indices()[:41]]


class Brooding(GridTuner):
    """Thinks until it was measured for a while."""

    def __init__(self, space, seed):
        super().__init__(space, seed)
        self.begun, self.done = threading.Event(), threading.Event()
        self.thinks = False

    def think(self):
        self.thinks = True
        self.begun.set()
        self.done.wait(60)
        self.thinks = False


def test_what_others_have_logged_is_not_traced_beside_thinking(task, store, monkeypatch):
    tuner, looked = Brooding(task.space, 0), []

    class Awake(Foreseeing):
        def measure(self, inputs, still_wanted=None):
            for measured in super().measure(list(inputs), still_wanted):
                if len(self.asked) == 3:
                    assert tuner.begun.wait(60)
                    tuner.done.set()
                yield measured

    news = Trials.news
    monkeypatch.setattr(Trials, "news", lambda self: looked.append(tuner.thinks) or news(self))
    run(task, store, 8, Awake(), tuner, batch=6)
    assert looked
    assert not any(looked)


def test_what_fails_beside_the_builds_ends_the_run_and_what_was_claimed_is_free(task, store):
    class Failing(GridTuner):
        def think(self):
            raise RuntimeError("no memory")

    class Building(FakeMeasurer):
        def measure(self, inputs, still_wanted=None):
            return super().measure(list(inputs), still_wanted)

    measurer = Building()
    with pytest.raises(RuntimeError, match="no memory"):
        run(task, store, 40, measurer, Failing(task.space, 0))
    assert measurer.asked == []
    other = Trials(task, store, TimingPolicy(), 0)
    assert all(other.claim(index) for index in range(8))


def test_a_record_is_found_by_its_values_even_if_its_index_has_moved(task, store):
    run(task, store, 1)
    (record,) = store.load()
    moved = record.to_json() | {"config": {"index": 7, "values": record.config["values"]}}
    store.path.unlink()
    store.append([Record.from_json(moved)])
    tuner = GridTuner(task.space, 0)
    run(task, store, 1, tuner=tuner)
    assert [o.index for o in tuner.observations] == [0]


def test_the_measurer_remembers_comparable_successes_of_the_log_only(task, store):
    run(task, store, 3, FakeMeasurer(failing=[1]))
    records = store.load()
    store.append([Record.from_json(records[0].to_json() | {"versions": {"python": "2.7"}})])
    _, measurer = run(task, store, 4)
    assert [r.code_hash for r in measurer.remembered] == ["0", "2"]
    assert measurer.remembered[0].costs_s == (1.0,)


def test_events_tell_the_beginning_each_trial_and_the_end(task, store):
    run(task, store, 2)
    events = []
    summary, _ = run(task, store, 4, on_event=events.append)
    started, *measured, finished = events
    assert isinstance(started, Started)
    assert (started.trials, started.recorded, started.best.index) == (4, 2, 0)
    assert all(isinstance(event, Measured) for event in measured)
    assert [(event.trial, event.trials, event.best.index) for event in measured] == [
        (3, 4, 0),
        (4, 4, 0),
    ]
    assert isinstance(finished, Finished)
    assert finished.summary == summary


def test_an_event_of_a_trial_comes_after_its_record_is_on_disk(task, store):
    on_disk = []
    run(task, store, 3, on_event=lambda event: on_disk.append(len(store.load())))
    assert on_disk == [0, 1, 2, 3, 3]


class Thinker(GridTuner):
    """Thinks until something is built, and a little longer."""

    def __init__(self, space, course):
        super().__init__(space, 0)
        self.course = course

    def think(self):
        deadline = time.monotonic() + 60
        while self.course[-1:] != ["build"] and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(0.02)
        self.course.append("think")


class Builder(FakeMeasurer):
    """Builds all candidates, then asks of each whether it is wanted, and runs it."""

    def __init__(self, course):
        super().__init__()
        self.course = course

    def ceiling(self):
        self.course.append("ceiling")

    def measure(self, inputs, still_wanted=None):
        built = list(inputs)
        self.course.append("build")
        for measured in super().measure(built, still_wanted):
            self.course.append("run")
            yield measured


def test_the_tuner_thinks_beside_the_builds_and_nothing_runs_before_it_is_done(task, store):
    course = []
    run(task, store, 5, Builder(course), Thinker(task.space, course), batch=2)
    assert course == [
        *["build", "think", "ceiling", "run"],
        *["build", "think", "run", "run"],
        *["build", "run", "run"],  # nothing will be asked any more
    ]


class Preparer(GridTuner):
    """Prepares in ever more pieces."""

    def __init__(self, space, course):
        super().__init__(space, 0)
        self.course = course

    def preparations(self):
        while True:
            self.course.append("prepare")
            time.sleep(0.001)
            yield


class PatientBuilder(Builder):
    """Builds no faster than something is prepared, in its first few batches."""

    def __init__(self, course, batches):
        super().__init__(course)
        self.batches = batches

    def measure(self, inputs, still_wanted=None):
        yield from super().measure(self._patiently(inputs), still_wanted)

    def _patiently(self, inputs):
        yield from inputs
        deadline = time.monotonic() + 60
        while self.batches and self.course[-1:] != ["prepare"] and time.monotonic() < deadline:
            time.sleep(0.001)
        self.batches = max(self.batches - 1, 0)


def test_a_long_run_prepares_its_tuner_while_it_builds_and_not_while_it_runs(task, store):
    for trials, batches, pattern in (
        (24, 0, "bcr{7}(br+)+"),
        (39, 2, "pbp?cr{7}pbp?r{8}(br+)+"),
    ):
        course = []
        other = RecordStore(store.path.with_name(f"{trials}.jsonl"))
        run(task, other, trials, PatientBuilder(course, batches), Preparer(task.space, course))
        steps = re.sub("p+", "p", "".join(step[0] for step in course))
        assert re.fullmatch(pattern, steps)


def test_what_a_tuner_raises_when_it_thinks_ends_the_run(task, store):
    class Fails(GridTuner):
        def think(self):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(task, store, 16, Builder([]), Fails(task.space, 0))
    assert store.load() == []


def test_a_space_without_a_feasible_configuration_ends_the_run_at_once(store, tmp_path):
    source = tmp_path / "infeasible.py"
    source.write_text(
        "from autotune import te\nfrom autotune.template import template\n\n"
        "@template('infeasible', reference=lambda a: a)\n"
        "def infeasible(cfg):\n"
        "    k = cfg.define_knob('k', [1, 2])\n"
        "    cfg.add_constraint(k > 2, 'k is large')\n"
        "    A = te.placeholder((8,), name='A')\n"
        "    B = te.compute((8,), lambda i: A[i], name='B')\n"
        "    return te.create_schedule(B.op), [A, B]\n"
    )
    summary, measurer = run(Task.from_reference(f"{source}:infeasible", {}), store, 4)
    assert summary.ended is End.EXHAUSTED
    assert (summary.trials, measurer.asked, summary.default_costs_s) == (0, [], None)


def test_an_exhausted_space_ends_the_run(task, store):
    feasible = len(task.space.feasible_indices())
    summary, measurer = run(task, store, feasible + 10)
    assert summary.ended is End.EXHAUSTED
    assert summary.trials == feasible
    assert len(set(measurer.asked)) == feasible


def test_an_interruption_keeps_what_was_measured_and_a_rerun_completes_it(task, store):
    measurer = FakeMeasurer(interrupt_at=3)
    with pytest.raises(KeyboardInterrupt):
        run(task, store, 10, measurer, RandomTuner(task.space, 0))
    assert [record.index for record in store.load()] == measurer.asked
    assert len(measurer.asked) == 3
    _, rest = run(task, store, 10, FakeMeasurer(), RandomTuner(task.space, 0))
    assert len({*measurer.asked, *rest.asked}) >= 10
    assert not {*measurer.asked} & {*rest.asked}


def test_the_summary_names_the_best_and_the_failures(task, store):
    summary, _ = run(task, store, 4, FakeMeasurer(failing=[0, 3]))
    assert summary.best is not None
    assert summary.best.index == 1
    assert summary.failures == {"RUN_TIMEOUT": 2}
    assert summary.ended is not End.EXHAUSTED
    nothing, _ = run(task, RecordStore(store.path.with_name("x")), 1, FakeMeasurer(failing=[0]))
    assert nothing.best is None


@pytest.mark.parametrize(("trials", "batch"), [(-1, 8), (4, 0)])
def test_senseless_numbers_are_refused(task, store, trials, batch):
    with pytest.raises(UsageError, match="trials must be >= 0 and batch >= 1"):
        run(task, store, trials, batch=batch)


REFUSING = """
from autotune import te
from autotune.template import template

@template("refusing", reference=lambda a: a + 1)
def refusing(cfg, legal: int, size: int = 40):
    k = cfg.define_knob("k", list(range(1, size + 1)))
    A = te.placeholder((64,), name="A")
    B = te.compute((64,), lambda i: A[i] + 1, name=f"B{k}")  # which cannot be traced
    s = te.create_schedule(B.op)
    cfg.add_constraint(k <= legal, "k is legal")
    s[B].split(B.op.axis[0], factor=k)
    return s, [A, B]
"""


@pytest.mark.filterwarnings("ignore:template 'refusing'")
def test_refused_proposals_are_told_but_neither_measured_nor_trials(tmp_path, store):
    (tmp_path / "refusing.py").write_text(REFUSING)
    own = Task.from_reference(f"{tmp_path}/refusing.py:refusing", {"legal": 5})
    tuner = GridTuner(own.space, 0)
    summary, measurer = run(own, store, 8, tuner=tuner)
    assert set(measurer.asked) == set(range(5))
    assert (summary.trials, summary.ended) == (5, End.EXHAUSTED)
    assert summary.refused == {"k is legal": 35}
    assert summary.failures == {}
    assert [o.error for o in tuner.observations] == [None] * 5 + ["INSTANTIATION_ERROR"] * 35


@pytest.mark.filterwarnings("ignore:template 'refusing'")
def test_a_run_ends_when_nothing_but_refused_proposals_comes(tmp_path, store, monkeypatch):
    (tmp_path / "refusing.py").write_text(REFUSING)
    monkeypatch.setattr("autotune.tuner.session.MOST_REFUSED", 50)
    args = {"legal": 3, "size": 1000}
    own = Task.from_reference(f"{tmp_path}/refusing.py:refusing", args)
    summary, measurer = run(own, store, 8)
    assert set(measurer.asked) == {0, 1, 2}
    assert summary.ended is End.EXHAUSTED
    assert 50 <= summary.refused["k is legal"] <= 70
