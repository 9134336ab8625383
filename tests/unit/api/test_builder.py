"""Lowering and building by the public interface: schedules, templates, records, mistakes."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.measured import measured

import autotune
from autotune import te
from autotune.errors import UsageError
from autotune.task.task import Task
from autotune.template import template
from records import RecordError, RecordStore, RecordWarning

SIZES = {"m": 8, "n": 16, "k": 4}


def add_one(n=8):
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    return te.create_schedule(B.op), [A, B]


def check(built):
    a, b, c = np.ones((8, 4), "f4"), np.ones((4, 16), "f4"), np.full((8, 16), np.nan, "f4")
    built(a, b, c)
    np.testing.assert_array_equal(c, np.full((8, 16), 4, "f4"))


def test_a_schedule_is_built_and_called():
    s, tensors = add_one()
    built = autotune.build(s, tensors, "llvm", name="plus_one")
    a, b = np.arange(8, dtype="f4"), np.empty(8, "f4")
    built(a, b)
    np.testing.assert_array_equal(b, a + 1)
    assert "plus_one" in built.source
    assert (built.record, built.workload) == (None, None)


def test_simple_mode_shows_the_loops_of_the_schedule():
    s, tensors = add_one()
    assert str(autotune.lower(s, tensors, simple_mode=True)) == (
        "produce B {\n  for (i, 0, 8) {\n    B[i] = (A[i] + 1f)\n  }\n}\n"
    )


def test_without_records_the_default_is_built_with_one_warning():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        built = autotune.build("matmul", SIZES)
    assert [str(w.message).split(":")[0] for w in caught] == [
        "no records given for matmul(m=8, n=16, k=4, dtype=float32) on llvm"
    ]
    assert built.record is None
    check(built)


def test_the_fastest_record_of_exactly_this_workload_is_used(tmp_path):
    task = Task.from_reference("matmul", SIZES, "llvm")
    other = Task.from_reference("matmul", {**SIZES, "m": 9}, "llvm")
    first, second, third = (int(i) for i in task.space.feasible_indices()[:3])
    store = RecordStore(tmp_path / "log.jsonl")
    store.append(
        [measured(task, first, 3e-3), measured(task, second, 1e-3), measured(other, third, 1e-6)]
    )
    built = autotune.build("matmul", SIZES, records=tmp_path / "log.jsonl")
    assert built.record is not None
    assert built.record.cost_s == 1e-3
    assert built.config == task.space.config(second)
    check(built)


def test_a_record_that_the_space_no_longer_holds_is_passed_over():
    task = Task.from_reference("matmul", SIZES, "llvm")
    first = int(task.space.feasible_indices()[0])
    good = measured(task, first, 3e-3)
    numbers = [name for name, value in good.config["values"].items() if isinstance(value, int)]
    values = {**good.config["values"], numbers[0]: 77}
    gone = replace(good, config={"index": first, "values": values}, costs_s=(1e-9,))
    said = "1 record of matmul.* passed over: the configuration is not in today's space"
    with pytest.warns(RecordWarning, match=said):
        built = autotune.build("matmul", SIZES, records=[gone, good])
    assert built.record is good


def test_lines_of_a_log_that_are_skipped_are_warned_of_at_the_line_that_calls(tmp_path):
    task = Task.from_reference("matmul", SIZES, "llvm")
    log = tmp_path / "log.jsonl"
    RecordStore(log).append([measured(task, int(task.space.feasible_indices()[0]), 3e-3)])
    log.write_text("no record\n" + log.read_text())
    for read in (
        lambda: autotune.build("matmul", SIZES, records=log),
        lambda: RecordStore(log).load(),
    ):
        with pytest.warns(RecordWarning, match="skipped 1 line") as caught:
            read()
        assert {Path(warned.filename) for warned in caught} == {Path(__file__)}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: autotune.build(*add_one(), "llvm", records="x"), "records are for templates"),
        (lambda: autotune.build(add_one()[0], {"n": 4}), "the list of its tensors, not a mapping"),
        (lambda: autotune.build("matmul", [4, 4]), "takes its arguments as a mapping"),
        (lambda: autotune.build(7, []), "or a function that returns tensors, got int"),
        (lambda: autotune.build("matmul", {"m": 8}), "needs a value for n, k"),
        (lambda: autotune.build("nope", {}), "there is no template 'nope'"),
        (lambda: autotune.build("matmul", SIZES, target="tpu"), "unknown target kind 'tpu'"),
        (lambda: autotune.build("matmul", SIZES, target=3), "target must be a text .*, got 3"),
        (lambda: autotune.build("matmul", SIZES, records=3), "records must be .*, got 3"),
        (lambda: autotune.build("matmul", SIZES, records=[3]), r"records must be .*, got \[3\]"),
        (lambda: autotune.build("matmul", SIZES, name="a b"), "name must be .*, got 'a b'"),
        (lambda: autotune.build(*add_one(), name="a b\n;"), r"name must be .*, got 'a b\\n;'"),
        (lambda: autotune.build(*add_one(), name=""), "name must be .*, got ''"),
        (lambda: autotune.lower(*add_one(), name=""), "name must be .*, got ''"),
        (
            lambda: autotune.build(add_one()[0], add_one()[1][0]),
            r"tensors must be .* as in \[A, B\], got ",
        ),
        (lambda: autotune.lower(add_one()[0], None), "tensors must be .*, got None"),
    ],
)
def test_mistakes_are_told_in_one_line(make, message):
    with pytest.raises(UsageError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_a_missing_record_file_is_named(tmp_path):
    with pytest.raises(RecordError, match=r"gone\.jsonl"):
        autotune.build("matmul", SIZES, records=tmp_path / "gone.jsonl")


def halved(n: int):
    """B[n] = A[n] / 2."""
    A = te.placeholder((n,), name="A")
    return te.compute((n,), lambda i: A[i] / 2.0, name="B")


@pytest.mark.parametrize("target", ["llvm", "cuda -on=cpu"])
@pytest.mark.parametrize("function", [halved, template("halved")(halved)])
def test_a_function_that_returns_tensors_is_built(function, target):
    with pytest.warns(UserWarning, match=r"no records given for halved\(n=9\)"):
        built = autotune.build(function, {"n": 9}, target)
    a, b = np.arange(9, dtype="f4"), np.empty(9, "f4")
    built(a, b)
    np.testing.assert_array_equal(b, a / 2)
    assert str(built.workload) == "halved(n=9)"


def test_what_is_no_computation_is_one_clear_line():
    with pytest.raises(UsageError, match="template 'halved' takes its arguments as a mapping"):
        autotune.build(halved, [9])
    with pytest.raises(UsageError, match="must be annotated as one of int"):
        autotune.build(lambda n: n, {"n": 9})
    with pytest.raises(UsageError, match="must return its tensors, as in `return"):
        autotune.build(template("nothing")(lambda: 3), {})
