"""Scans of which only some steps are read: no other step is stored or computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import autotune
from autotune import te
from autotune.ir.stmt import Allocate, PrimFunc
from autotune.ir.visitor import walk
from autotune.lowering.finalise import analyse, finalise
from autotune.lowering.nest.lower_schedule import lower_schedule


def _sums(m: int, n: int, back: int = 1) -> tuple[Any, Any]:
    """X, and S[t] = S[t - back] + X[t]."""
    X = te.placeholder((m, n), "float32", name="X")
    state = te.placeholder((m, n), "float32", name="state")
    first = te.compute((back, n), lambda t, i: X[t, i], name="first")
    later = te.compute((m, n), lambda t, i: state[t - back, i] + X[t, i], name="later")
    return X, te.scan(first, later, state, name="S")


def _stored(function: PrimFunc) -> list[int]:
    return [int(s.buffer.shape[0].value) for s in walk(function.body) if isinstance(s, Allocate)]


@pytest.mark.parametrize("back", [1, 2])
def test_a_scan_of_which_only_the_last_step_is_read_stores_no_other(back: int) -> None:
    X, S = _sums(20, 8, back)
    Y = te.compute((8,), lambda i: S[19, i] * 2.0, name="Y")
    s = te.create_schedule(Y.op)
    assert _stored(lower_schedule(s, [X, Y])) == [back]
    x = np.arange(160, dtype="float32").reshape(20, 8)
    y = np.empty(8, "float32")
    autotune.build(s, [X, Y])(x, y)
    np.testing.assert_array_equal(y, 2 * x[back - 1 :: back].sum(0))


def test_a_scan_in_the_loop_of_its_reader_computes_the_steps_that_are_read_there() -> None:
    X, S = _sums(12, 12)
    Y = te.compute((12,), lambda i: S[i // 4 * 4 + 3, i], name="Y")
    s = te.create_schedule(Y.op)
    outer, _ = s[Y].split(Y.op.axis[0], factor=4)
    s[S].compute_at(s[Y], outer)
    lowered = lower_schedule(s, [X, Y])
    assert _stored(lowered) == [1]
    assert "outer*4) + 3" in str(finalise(analyse(lowered)))
    x = np.arange(144, dtype="float32").reshape(12, 12)
    y = np.empty(12, "float32")
    autotune.build(s, [X, Y])(x, y)
    own = np.cumsum(x, axis=0)
    np.testing.assert_array_equal(y, [own[i // 4 * 4 + 3, i] for i in range(12)])


def test_what_no_state_is_needed_for_may_be_computed_in_each_step() -> None:
    X = te.placeholder((9, 8, 5), "float32", name="X")
    k = te.reduce_axis((0, 5), name="k")
    P = te.compute((9, 8), lambda t, i: te.sum(X[t, i, k], axis=k), name="P")
    state = te.placeholder((9, 8), "float32", name="state")
    first = te.compute((1, 8), lambda t, i: te.const(0, "float32"), name="first")
    later = te.compute((9, 8), lambda t, i: state[t - 1, i] + P[t, i], name="later")
    S = te.scan(first, later, state, name="S")
    Y = te.compute((8,), lambda i: S[5, i], name="Y")
    s = te.create_schedule(Y.op)
    s[P].compute_at(s[S], S.op.scan_axis)
    x = np.arange(360, dtype="float32").reshape(9, 8, 5)
    y = np.empty(8, "float32")
    autotune.build(s, [X, Y])(x, y)
    np.testing.assert_array_equal(y, x[1:6].sum((0, 2)))
