"""What goes on beside the measuring: the next batch is built ahead, and the tuner thinks."""

import re
import threading
import time

import pytest
from support.fake_measurer import FakeMeasurer, run
from support.footprint import wait_for

from autotune.measure.timing_policy import TimingPolicy
from autotune.tuner.run.events import End
from autotune.tuner.run.learner import BackgroundTask
from autotune.tuner.run.trials import Trials
from autotune.tuner.search.baselines import GridTuner
from records import RecordStore


class Prebuilding(FakeMeasurer):
    """Notes what it is told may come next, and when."""

    def __init__(self, overlap=True):
        super().__init__()
        self.overlap = overlap
        self.prebuilt = []

    def prebuild(self, candidates):
        indices = [candidate.config.index for candidate in candidates]
        if indices not in [told for _, told in self.prebuilt]:
            self.prebuilt.append((len(self.asked), indices))


def test_beside_a_device_of_its_own_the_next_batch_is_asked_for_ahead(task, store):
    _, measurer = run(task, store, 12, Prebuilding(), batch=5)
    tried = measurer.asked
    assert len(tried) == len(set(tried)) == 12
    # Batches of four (the default is proposed twice), five and three: half of each is left then.
    assert measurer.prebuilt == [(0, tried[:1]), (2, tried[4:9]), (7, tried[9:])]
    assert len(store.load()) == 12
    store.path.unlink()
    _, measurer = run(task, store, 12, Prebuilding(overlap=False), batch=5)
    assert measurer.prebuilt == [(0, tried[:1])]


class Holding(GridTuner):
    """Has its last proposals held back; notes how many it was asked for."""

    held_back = 1

    def __init__(self, space, seed):
        super().__init__(space, seed)
        self.wanted = []

    def ask(self, n):
        self.wanted.append(n)
        return super().ask(n)


def test_what_is_held_back_of_a_batch_is_built_first_of_the_next_and_none_is_left(
    task, store, monkeypatch
):
    begin = BackgroundTask.start
    monkeypatch.setattr(BackgroundTask, "start", lambda self: (begin(self), self._call.wait()))
    tuner = Holding(task.space, 0)
    _, measurer = run(task, store, 20, Prebuilding(overlap=False), tuner, batch=8)
    tried = measurer.asked[:20]
    assert tried == task.space.feasible_indices()[:20].tolist()
    # At first the default is proposed twice, and one is asked for in its place.
    assert measurer.prebuilt == [(0, tried[:1]), (8, tried[8:9]), (16, tried[16:17])]
    assert tuner.wanted == [8, 1, 8, 3]
    assert len(tuner.observations) == len(tuner.seen) == 20


@pytest.mark.parametrize(
    ("measurer", "batch", "wanted"),
    [
        pytest.param(FakeMeasurer(), 8, [7, 8, 5], id="where nothing is built"),
        pytest.param(Prebuilding(), 20, [19, 1], id="where the next batch is asked for ahead"),
        pytest.param(Prebuilding(overlap=False), 7, [6, 7, 7], id="of few"),
    ],
)
def test_nothing_is_held_back(task, store, measurer, batch, wanted):
    tuner = Holding(task.space, 0)
    run(task, store, 20, measurer, tuner, batch=batch)
    assert tuner.wanted == wanted


def test_what_was_held_back_is_measured_when_the_space_has_no_more(task, store):
    whole = len(task.space.feasible_indices())
    summary, measurer = run(
        task, store, None, Prebuilding(overlap=False), Holding(task.space, 0), batch=8
    )
    assert summary.ended is End.EXHAUSTED
    assert len(set(measurer.asked)) == summary.trials == whole


def test_what_is_held_back_is_built_as_soon_as_builders_wait_for_the_tuner(task, store):
    class Slow(Holding):
        def think(self):
            wait_for(lambda: len(measurer.prebuilt) > 1)

    measurer = Prebuilding(overlap=False)
    run(task, store, 12, measurer, Slow(task.space, 0), batch=8)
    assert measurer.prebuilt[1] == (0, measurer.asked[8:9])


def test_a_batch_measured_in_parts_asks_ahead_once_and_loses_no_proposal(task, store):
    tuner = GridTuner(task.space, 0)
    _, measurer = run(task, store, 41, Prebuilding(), tuner, batch=20)
    assert len(measurer.prebuilt) == 2  # the default; the rest with 4 left, a part of their own
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

    class Awake(Prebuilding):
        def run(self, candidate):
            result = super().run(candidate)
            if len(self.asked) == 3:
                assert tuner.begun.wait(60)
                tuner.done.set()
            return result

    news = Trials.new_records
    monkeypatch.setattr(
        Trials, "new_records", lambda self: looked.append(tuner.thinks) or news(self)
    )
    run(task, store, 8, Awake(), tuner, batch=6)
    assert looked
    assert not any(looked)


def test_what_fails_beside_the_builds_ends_the_run_and_what_was_claimed_is_free(task, store):
    class Failing(GridTuner):
        def think(self):
            raise RuntimeError("no memory")

    measurer = FakeMeasurer()
    with pytest.raises(RuntimeError, match="no memory"):
        run(task, store, 40, measurer, Failing(task.space, 0))
    assert measurer.asked == []
    other = Trials(task, store, TimingPolicy(), 0)
    assert all(other.claim(index) for index in range(8))


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
    """Notes when all candidates are built, and when one runs."""

    def __init__(self, course):
        super().__init__()
        self.course = course

    def ceiling(self):
        self.course.append("ceiling")

    def await_builds(self):
        self.course.append("build")

    def run(self, candidate):
        self.course.append("run")
        return super().run(candidate)


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

    def await_builds(self):
        deadline = time.monotonic() + 60
        while self.batches and self.course[-1:] != ["prepare"] and time.monotonic() < deadline:
            time.sleep(0.001)
        self.batches = max(self.batches - 1, 0)
        super().await_builds()


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
