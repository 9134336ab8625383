"""Splits whose factor depends on sizes that only calls know."""

from __future__ import annotations

import numpy as np
import pytest

import autotune
from autotune import te
from autotune.errors import ScheduleError


def doubled():
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2, name="B")
    return n, A, B, te.create_schedule(B.op)


def test_a_factor_that_is_at_least_1_may_depend_on_a_size():
    n, A, B, s = doubled()
    outer, _ = s[B].split(B.op.axis[0], factor=te.max(1, te.ceildiv(n, 4)))
    s[B].parallel(outer)
    built = autotune.build(s, [A, B], "llvm")
    for size in (1, 3, 4, 5, 64, 65):
        a, b = np.arange(size, dtype="f4"), np.zeros(size, "f4")
        built(a, b)
        np.testing.assert_array_equal(b, 2 * a)


def test_such_a_step_is_replayed():
    n, A, B, s = doubled()
    s[B].split(B.op.axis[0], factor=te.max(1, te.ceildiv(n, 4)))
    again = te.create_schedule(B.op, steps=s.to_json())
    assert str(autotune.lower(again, [A, B])) == str(autotune.lower(s, [A, B]))


def test_a_factor_that_may_be_0_is_refused():
    n, _, B, s = doubled()
    with pytest.raises(ScheduleError, match="known only when the program runs"):
        s[B].split(B.op.axis[0], factor=te.ceildiv(n, 4))
