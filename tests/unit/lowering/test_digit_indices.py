"""Digits of numbers, written as quotients and remainders, are the loops that they come from."""

from __future__ import annotations

from autotune.ir.expr import KnobVar, Var
from autotune.ir.ops import const
from autotune.lowering.nest.digit_indices import without_digits

s, t, v = (Var(name) for name in "stv")


def test_digits_by_numbers_are_the_loops() -> None:
    number = (s * 32 + t) * 4 + v
    extents = {s: const(3), t: const(32), v: const(4)}
    assert without_digits(number // 4 // 32, extents) is s
    assert without_digits(number // 4 % 32, extents) is t
    assert without_digits(number % 4, extents) is v


def test_digits_by_knobs_are_the_loops() -> None:
    threads, lanes = KnobVar("threads", 1, 64), KnobVar("lanes", 1, 8)
    number = (s * threads + t) * lanes + v
    extents = {s: const(3), t: threads, v: lanes}
    assert without_digits(number // lanes % threads, extents) is t


def test_what_may_carry_is_kept() -> None:
    number = s * 4 + v
    assert without_digits(number // 4, {s: const(3), v: const(5)}) is number // 4
    assert without_digits(number // 4, {s: const(3)}) is number // 4
