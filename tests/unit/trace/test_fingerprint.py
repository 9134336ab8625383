"""Fingerprints of what a template defines: every difference in meaning shows, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autotune import te
from autotune.ir.algebra.simplify_stmt import Simplifier
from autotune.ir.expr import Const, KnobVar
from autotune.schedule.schedule import Schedule
from autotune.trace.fingerprint import digest, schedule_lines


def mark(schedule: Schedule) -> str:
    return digest(schedule_lines(schedule))


def scaled(factor: Any, name: str = "B") -> Schedule:
    A = te.placeholder((8,), name="A")
    return te.create_schedule(te.compute((8,), lambda i: A[i] * factor, name=name).op)


def summed(limit: int, combine: Callable[..., Any] = te.sum) -> Schedule:
    A, r = te.placeholder((4, 8), name="A"), te.reduce_axis((0, 8), "r")
    return te.create_schedule(
        te.compute((4,), lambda i: combine(A[i, r], axis=r, where=r < limit), name="B").op
    )


def of_two(first: bool) -> Schedule:
    pair = [te.placeholder((8,), name="A") for _ in range(2)]
    B = te.compute((8,), lambda i: pair[0][i] + pair[1][i] * 2, name="B")
    C = te.compute((8,), lambda i: B[i] - pair[0 if first else 1][i], name="C")
    return te.create_schedule(C.op)


def split(axis: int) -> Schedule:
    i, j = te.reduce_axis((0, 8), "i"), te.reduce_axis((0, 8), "i")
    A = te.placeholder((8, 8), name="A")
    s = te.create_schedule(te.compute((), lambda: te.sum(A[i, j], axis=[i, j]), name="B").op)
    (stage,) = (stage for stage in s.stages if stage.name == "B")
    stage.split((i, j)[axis], factor=2)
    return s


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda: scaled(1.0), lambda: scaled(float(np.nextafter(np.float32(1), np.float32(2))))),
        (lambda: scaled(Const(2, "float32")), lambda: scaled(Const(2, "float64"))),
        (lambda: summed(4), lambda: summed(5)),
        (lambda: summed(4), lambda: summed(4, te.max)),
        (lambda: of_two(True), lambda: of_two(False)),
        (lambda: split(0), lambda: split(1)),
    ],
    ids=["last bit", "dtype of a constant", "condition", "combiner", "tensor", "axis"],
)
def test_fingerprints_see_what_listings_do_not(
    one: Callable[[], Schedule], other: Callable[[], Schedule]
) -> None:
    assert mark(one()) == mark(one())
    assert mark(one()) != mark(other())


def test_fingerprints_tell_knobs_apart_by_name() -> None:
    assert mark(scaled(KnobVar("f", 1, 4))) == mark(scaled(KnobVar("f", 1, 4)))
    assert mark(scaled(KnobVar("f", 1, 4))) != mark(scaled(KnobVar("g", 1, 4)))


def test_fingerprints_need_no_simplification(monkeypatch: pytest.MonkeyPatch) -> None:
    want = mark(summed(4))

    def fail(*_: object) -> None:
        raise AssertionError("simplified")

    monkeypatch.setattr(Simplifier, "expr", fail)
    assert mark(summed(4)) == want
