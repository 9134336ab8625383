"""Splits that begin before an axis: vectors of an array, and rows that begin inside of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import autotune
from autotune import te
from autotune.errors import ScheduleError
from autotune.schedule.apply_steps import replay


def shifted(m: int = 5, n: int = 13) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    """Y = 2 X + 1 through Z = 2 X."""
    X = te.placeholder((m, n), "float32", name="X")
    Z = te.compute((m, n), lambda i, j: X[i, j] * 2.0, name="Z")
    return X, Z, te.compute((m, n), lambda i, j: Z[i, j] + 1.0, name="Y")


def run(s: Any, X: te.Tensor, Y: te.Tensor) -> None:
    x = np.arange(65, dtype="float32").reshape(5, 13)
    y = np.full_like(x, 77)
    autotune.build(s, [X, Y])(x, y)
    np.testing.assert_array_equal(y, 2 * x + 1)


def test_every_iteration_runs_once() -> None:
    X, Z, Y = shifted()
    s = te.create_schedule(Y.op)
    i, j = Y.op.axis
    outer, lane = s[Y].split(j, factor=4, offset=i.var * 13 % 4)
    s[Y].vectorize(lane)
    s[Z].compute_at(s[Y], outer)
    run(s, X, Y)


def test_the_axis_of_an_offset_may_be_split_itself() -> None:
    X, Z, Y = shifted()
    s = te.create_schedule(Y.op)
    i, j = Y.op.axis
    outer, _ = s[Y].split(j, factor=4, offset=i.var * 13 % 4)
    s[Y].split(i, factor=2)
    s[Y].split(outer, nparts=2)
    s[Z].compute_inline()
    run(s, X, Y)


def test_steps_keep_the_offset() -> None:
    X, _, Y = shifted()
    s = te.create_schedule(Y.op)
    i, j = Y.op.axis
    s[Y].split(j, factor=4, offset=i.var * 13 % 4)
    again = te.create_schedule(Y.op)
    replay(again, s.steps)
    assert again.steps == s.steps
    run(again, X, Y)


@pytest.mark.parametrize(
    ("sizes", "problem"),
    [
        ({"nparts": 4}, "an offset goes with factor="),
        ({"factor": 4}, "the offset depends on 'j', no other axis"),
    ],
)
def test_an_offset_that_means_nothing_is_refused(sizes: dict[str, int], problem: str) -> None:
    _, _, Y = shifted()
    s = te.create_schedule(Y.op)
    i, j = Y.op.axis
    offset = (i if "nparts" in sizes else j).var % 4
    with pytest.raises(ScheduleError, match=problem):
        s[Y].split(j, offset=offset, **sizes)
