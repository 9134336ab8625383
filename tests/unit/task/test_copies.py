"""Configurations that are the same program are measured once, and the tuner learns them all."""

from itertools import islice

import pytest
from support.fake_measurer import FakeMeasurer, run

from autotune import te
from autotune.task.copies import Copies
from autotune.task.task import Task
from autotune.template import Knobs, template
from autotune.tuner.base import Tuner
from autotune.tuner.run.events import End
from autotune.tuner.run.trials import Trials
from autotune.tuner.search.baselines import GridTuner

N = 6


@template("shared_loop", target="llvm")
def shared_loop(cfg: Knobs):
    """Parts of a loop of six iterations; a larger number than that is the same as six."""
    parts = cfg.define_knob("parts", [1, 2, 6, 8, 64])
    order = cfg.define_knob("order", ["one", "other"])
    A = te.placeholder((N,), name="A")
    B = te.compute((N,), lambda i: A[i] * (2 if order == "one" else 3), name="B")
    s = te.create_schedule(B.op)
    s[B].split(s[B].op.axis[0], factor=te.ceildiv(N, parts))
    return s, [A, B]


@pytest.fixture
def task() -> Task:
    return Task(shared_loop, {}, "llvm")


class Reusing(FakeMeasurer):
    reuses_code = True


class InOrder(Tuner):
    """Proposes some candidates, in their order."""

    def __init__(self, space, order):
        super().__init__(space, 0)
        self._order = iter(order)

    def _propose(self, n):
        return list(islice((index for index in self._order if index not in self._seen), n))


def index_of(task: Task, parts: int, order: str = "one") -> int:
    return task.space.index_of({"parts": parts, "order": order})


def test_configurations_of_the_same_program_have_one_original(task):
    copies = Copies(task)
    found = {n: copies.original_of(index_of(task, n)) for n in (6, 1, 64, 2, 8)}
    six = index_of(task, 6)
    assert found == {6: None, 1: None, 64: six, 2: None, 8: six}


def test_a_program_that_differs_in_a_constant_alone_is_no_copy(task):
    copies = Copies(task)
    assert copies.original_of(index_of(task, 6)) is None
    assert copies.original_of(index_of(task, 6, "other")) is None


def test_arrays_in_another_order_make_another_program():
    @template("ordered", target="llvm")
    def ordered(cfg: Knobs):
        A, B = (te.placeholder((N,), name=name) for name in "AB")
        C = te.compute((N,), lambda i: A[i] - B[i], name="C")
        first = cfg.define_knob("first", ["A", "B"])
        return te.create_schedule(C.op), [A, B, C] if first == "A" else [B, A, C]

    copies = Copies(Task(ordered, {}, "llvm"))
    assert [copies.original_of(index) for index in range(2)] == [None, None]


def test_what_is_measured_is_no_copy_and_others_are_copies_of_it(task):
    copies = Copies(task)
    for parts in (64, 8):
        copies.add_measured(index_of(task, parts))
    found = {n: copies.original_of(index_of(task, n)) for n in (8, 64, 6)}
    assert found == {8: None, 64: None, 6: index_of(task, 64)}


def test_of_a_long_log_only_the_first_programs_are_looked_at(task, monkeypatch):
    monkeypatch.setattr("autotune.task.copies.MOST_MEASURED", 1)
    copies = Copies(task)
    for parts in (1, 64):
        copies.add_measured(index_of(task, parts))
    assert copies.original_of(index_of(task, 6)) is None
    assert copies.original_of(index_of(task, 64)) is None


def test_the_same_program_has_the_same_final_code(task):
    copies = Copies(task)
    for index in range(len(task.space)):
        original = copies.original_of(index)
        if original is not None:
            assert str(task.final(index)) == str(task.final(original))


def test_copies_are_not_measured_and_are_no_trials(task, store):
    summary, measurer = run(task, store, 100, Reusing())
    assert len(measurer.asked) == len(store.load()) == summary.trials == 6
    assert summary.copies == 4


def test_the_tuner_is_told_of_a_copy_what_its_original_took(task, store):
    tuner = GridTuner(task.space, 0)
    failing = [index_of(task, 6, "other")]
    run(task, store, 100, Reusing(failing=failing), tuner=tuner)
    told = {o.index: o for o in tuner.observations}
    assert len(told) == len(task.space)
    for order in ("one", "other"):
        of_six = told[index_of(task, 6, order)]
        for parts in (8, 64):
            copy = told[index_of(task, parts, order)]
            assert (copy.cost_s, copy.error) == (of_six.cost_s, of_six.error)
    assert not told[index_of(task, 64, "other")].ok


def test_a_measurer_that_looks_at_knobs_measures_each_configuration(task, store):
    summary, measurer = run(task, store, 100, FakeMeasurer())
    assert len(measurer.asked) == len(task.space)
    assert summary.copies == 0


def test_copies_do_not_use_up_the_trials(task, store):
    summary, measurer = run(task, store, 6, Reusing())
    assert summary.trials == 6
    assert len(set(measurer.asked)) == 6


class Noting(GridTuner):
    """Notes which candidates it is told of, in order; its last proposals are held back."""

    held_back = 2

    def __init__(self, space, seed):
        super().__init__(space, seed)
        self.told = []

    def tell(self, observations):
        observations = list(observations)
        self.told += [observation.index for observation in observations]
        super().tell(observations)


class Ahead(Reusing):
    """Lets the builders begin with what may come next."""

    def __init__(self, overlap=False):
        super().__init__()
        self.overlap, self.prebuilt = overlap, []

    def prebuild(self, candidates):
        self.prebuilt.append([candidate.config.index for candidate in candidates])


@pytest.mark.parametrize("make", [Reusing, Ahead, lambda: Ahead(overlap=True)])
@pytest.mark.parametrize("batch", [1, 2, 3, 8, 16])
def test_the_tuner_is_told_of_each_configuration_once(task, store, make, batch):
    tuner = Noting(task.space, 0)
    summary, measurer = run(task, store, 100, make(), tuner, batch=batch)
    assert sorted(tuner.told) == list(range(len(task.space)))
    assert len(set(measurer.asked)) == summary.trials == 6
    assert summary.copies == 4


class Devices(Reusing):
    """Several devices; what was submitted last ends first."""

    def __init__(self, width):
        super().__init__()
        self.width, self.overlap, self.flight = width, False, []

    def submit(self, candidate):
        self.flight.append(candidate)

    def next_result(self):
        candidate = self.flight.pop()
        return candidate, self.run(candidate)

    def withdraw(self):
        taken = self.flight[self.width :]
        del self.flight[self.width :]
        return taken


@pytest.mark.parametrize("width", [1, 2, 4, 9])
@pytest.mark.parametrize("batch", [1, 16])
def test_several_devices_measure_each_program_once_and_tell_each_copy_once(
    task, store, width, batch
):
    tuner = Noting(task.space, 0)
    summary, measurer = run(task, store, 100, Devices(width), tuner, batch=batch)
    assert sorted(tuner.told) == list(range(len(task.space)))
    assert len(store.load()) == summary.trials == 6
    assert len(set(measurer.asked)) == 6
    told = {o.index: o.cost_s for o in tuner.observations}
    assert len({told[index_of(task, n)] for n in (6, 8, 64)}) == 1


def test_copies_of_what_is_in_the_log_are_no_trials(task, store):
    order = [index_of(task, n, o) for o in ("one", "other") for n in (64, 6, 8, 1, 2)]
    run(task, store, 2, Reusing(), InOrder(task.space, order[:1]))
    tuner = InOrder(task.space, order[1:])
    summary, measurer = run(task, store, 100, Reusing(), tuner)
    assert summary.trials == len(store.load()) == 6
    assert not {index_of(task, 6), index_of(task, 8)} & set(measurer.asked)
    told = {o.index: o.cost_s for o in tuner.observations}
    assert len({told[index_of(task, n)] for n in (6, 8, 64)}) == 1


def test_the_default_is_measured_even_if_the_log_has_its_program(store):
    @template("twice", target="llvm")
    def twice(cfg: Knobs):
        parts = cfg.define_knob("parts", [8, 6, 2])
        A = te.placeholder((N,), name="A")
        B = te.compute((N,), lambda i: A[i] * 2, name="B")
        s = te.create_schedule(B.op)
        s[B].split(s[B].op.axis[0], factor=te.ceildiv(N, parts))
        return s, [A, B]

    task = Task(twice, {}, "llvm")
    assert task.default_index == 0
    trials = Trials(task, store, Reusing.policy, 0)
    trials.add(1, Reusing().timed(1))
    trials.close()
    summary, measurer = run(task, store, 100, Reusing())
    assert set(measurer.asked) == {0, 2}
    assert summary.default is not None
    assert summary.default.index == 0


def test_the_next_batch_is_asked_for_ahead_though_most_of_a_batch_are_copies(store):
    @template("mostly_copies", target="llvm")
    def mostly_copies(cfg: Knobs):
        other = cfg.define_knob("other", [1, 2, 3])
        parts = cfg.define_knob("parts", [1, 2, 3, *range(N, N + 10)])
        A = te.placeholder((N,), name="A")
        B = te.compute((N,), lambda i: A[i] * other, name="B")
        s = te.create_schedule(B.op)
        s[B].split(s[B].op.axis[0], factor=te.ceildiv(N, parts))
        return s, [A, B]

    task = Task(mostly_copies, {}, "llvm")
    measurer = Ahead(overlap=True)
    summary, _ = run(task, store, 100, measurer, batch=13)
    assert summary.trials == len(set(measurer.asked)) == 12
    assert len([indices for indices in measurer.prebuilt if len(indices) > 1]) >= 2


def test_a_run_that_finds_nothing_but_copies_ends_and_says_so(task, store, monkeypatch):
    monkeypatch.setattr("autotune.tuner.run.session.MAX_REFUSED", 2)
    order = [index_of(task, n) for n in (6, 8, 64, 1, 2)]
    summary, measurer = run(task, store, 100, Reusing(), InOrder(task.space, order), batch=1)
    assert summary.ended is End.EXHAUSTED
    assert len(set(measurer.asked)) == 2  # the default, and one
    assert summary.why == "2 proposals in a row were refused or copies of others"
