"""Configurations that are the same program are measured once, and the tuner learns them all."""

import pytest
from support.fake_measurer import FakeMeasurer, run

from autotune import te
from autotune.task.copies import Copies
from autotune.task.task import Task
from autotune.template import Knobs, template
from autotune.tuner.search.baselines import GridTuner
from records import RecordStore

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


@pytest.fixture
def store(tmp_path) -> RecordStore:
    return RecordStore(tmp_path / "log.jsonl")


class Reusing(FakeMeasurer):
    reuses_code = True


def index_of(task: Task, parts: int, order: str = "one") -> int:
    return task.space.index_of({"parts": parts, "order": order})


def test_configurations_of_the_same_program_have_one_original(task):
    copies = Copies(task)
    found = {n: copies.original_of(index_of(task, n)) for n in (6, 1, 64, 2, 8)}
    six = index_of(task, 6)
    assert found == {6: None, 1: None, 64: six, 2: None, 8: six}
    assert copies.copies_of(six) == [index_of(task, 64), index_of(task, 8)]
    assert len(copies) == 2


def test_a_program_that_differs_in_a_constant_alone_is_no_copy(task):
    copies = Copies(task)
    assert copies.original_of(index_of(task, 6)) is None
    assert copies.original_of(index_of(task, 6, "other")) is None


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
