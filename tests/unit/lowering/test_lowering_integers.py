"""Integers of lowered programs: values wrap, indices are exact, and casts decide what fits."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
from support.agreement import assert_gives, lowered, numbers

from autotune import te
from autotune.ir.algebra.polynomials import normal
from autotune.ir.evaluate.interpreter import evaluate, interpret
from autotune.ir.expr import Var
from autotune.ir.ops import const
from autotune.ir.stmt import Allocate
from autotune.ir.visitor import all_loads, free_vars, walk
from autotune.lowering.finalise import finalise
from autotune.lowering.nest.regions import Relaxer, as_index
from autotune.runtime.cpu.llvm_compiler import compile_function
from autotune.runtime.object_cache import ObjectCache


def test_an_int64_index_is_bounded_like_an_int32_one() -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] * 2, name="B")
    C = te.compute((4,), lambda i: B[i.astype("int64") * 2 + 1], name="C")
    s = te.create_schedule(C.op)
    outer, _ = s[C].split(C.op.axis[0], factor=2)
    s[B].compute_at(s[C], outer)
    a = numbers(8)
    analysed = assert_gives(s, [A, C], [a], a[1::2] * 2)
    (allocation,) = [x for x in walk(analysed.body) if isinstance(x, Allocate)]
    assert [str(extent) for extent in allocation.buffer.shape] == ["3"]


def test_sizes_of_type_int64_can_be_split_and_fused() -> None:
    n = te.var("n", "int64")
    A = te.placeholder((n, 3), name="A")
    B = te.compute((n, 3), lambda i, j: A[i, j] * 2, name="B")
    C = te.compute((n, 3), lambda i, j: B[i, j] + 1, name="C")
    s = te.create_schedule(C.op)
    outer, _ = s[C].split(s[C].fuse(*C.op.axis), factor=4)
    s[B].compute_at(s[C], outer)
    a = numbers(5, 3)
    assert_gives(s, [A, C], [a], a * 2 + 1)


def test_a_digit_is_left_out_of_quotients_in_indices() -> None:
    A = te.placeholder((3,), name="A")
    C = te.compute((12, 10), lambda i, j: A[(i * 10 + j) // 40], name="C")
    a = numbers(3)
    analysed = assert_gives(te.create_schedule(C.op), [A, C], [a], a.repeat(40).reshape(12, 10))
    assert "A[floordiv(i, 4)]" in str(finalise(analysed))


@pytest.mark.parametrize("divide", [operator.floordiv, operator.mod])
def test_a_digit_stays_in_stored_integers_which_may_wrap(divide: Any) -> None:
    n = te.var("n")
    A = te.placeholder((n, 10), "int32", name="A")
    C = te.compute((n, 10), lambda i, j: A[i, j] + divide(i * 1000010 + j, 40), name="C")
    a = np.ones((3000, 10), "int32")
    i, j = np.indices(a.shape, "int32")
    _, final = lowered(te.create_schedule(C.op), [A, C])
    interpret(final, [a, out := np.empty_like(a)])
    np.testing.assert_array_equal(out, a + divide(i * np.int32(1000010) + j, 40))


def wraps(a: Any) -> Any:
    """Every operation whose simplification would be wrong for sums that wrap."""
    where, least, greatest = (
        (te.select, te.min, te.max) if not isinstance(a, np.ndarray)
        else (np.where, np.minimum, np.maximum)
    )  # fmt: skip
    one, none = (te.const(1), te.const(0)) if where is te.select else (np.int32(1), np.int32(0))
    return (
        (a * 4) // 4
        + (a * 6) % 3
        + greatest(a, a + 1)
        - least(a - 5, a)
        + where(a + 1 > a, one, none)
        + where(a + 7 < 3, one, none)
        - (a + 2147483647) * 2147483647
    )


@pytest.mark.parametrize("vector", [False, True])
def test_loaded_integers_wrap_and_are_not_simplified_as_if_they_did_not(vector: bool) -> None:
    A = te.placeholder((64,), "int32", name="A")
    C = te.compute((64,), lambda i: wraps(A[i]), name="C")
    s = te.create_schedule(C.op)
    if vector:
        s[C].vectorize(C.op.axis[0])
    limits = np.iinfo("int32")
    a = np.random.default_rng(0).integers(limits.min, limits.max, 64, "int32", endpoint=True)
    a[:6] = [limits.max, limits.min, limits.max - 1, limits.min + 1, 0, -1]
    with np.errstate(over="ignore"):
        assert_gives(s, [A, C], [a], wraps(a))


@pytest.mark.parametrize("vector", [False, True])
def test_stored_values_of_a_loop_variable_wrap_as_loaded_ones_do(vector: bool) -> None:
    C = te.compute((64,), lambda i: wraps(i * 1103515245 - 12345), name="C")
    s = te.create_schedule(C.op)
    if vector:
        s[C].vectorize(C.op.axis[0])
    with np.errstate(over="ignore"):
        i = np.arange(64, dtype="int32") * np.int32(1103515245) - np.int32(12345)
        assert_gives(s, [C], [], wraps(i))


@pytest.mark.parametrize("vector", [False, True])
def test_a_coefficient_that_int32_cannot_hold_wraps_in_a_stored_value(vector: bool) -> None:
    C = te.compute((8,), lambda i: i * 100000 * 100000 + i + 2147483647 + 9, name="C")
    s = te.create_schedule(C.op)
    if vector:
        s[C].vectorize(C.op.axis[0])
    i = np.arange(8, dtype="int64")
    assert_gives(s, [C], [], (i * 10**10 + i + 2147483647 + 9).astype("int32"))


def test_a_stride_that_int32_cannot_hold_is_exact_in_an_index() -> None:
    A = te.placeholder((3, 50000, 50000), name="A")
    C = te.compute((3,), lambda i: A[i, 7, 8], name="C")
    s = te.create_schedule(C.op)
    s[C].unroll(C.op.axis[0])
    _, final = lowered(s, [A, C])
    (index,) = {load.index for load in all_loads(final.body)}
    (var,) = free_vars(index)
    assert [evaluate(index, {var: i}) for i in range(3)] == [
        i * 2_500_000_000 + 350_008 for i in range(3)
    ]
    assert "i64 5000350008" in compile_function(final, cache=ObjectCache(None)).source


def test_an_integer_select_over_indices_is_right_in_an_index() -> None:
    A = te.placeholder((12,), name="A")
    C = te.compute(
        (3, 12), lambda r, i: A[te.select(i * 2 <= 11 - r, i * 2, te.select(r < i, r, i))], name="C"
    )
    a = numbers(12)
    r, i = np.ogrid[:3, :12]
    want = a[np.where(i * 2 <= 11 - r, i * 2, np.where(r < i, r, i))]
    for vector in (False, True):
        s = te.create_schedule(C.op)
        if vector:
            s[C].vectorize(C.op.axis[1])
        assert_gives(s, [A, C], [a], want)


def test_a_cast_to_fewer_bits_wraps_and_decides_nothing() -> None:
    B = te.compute(
        (4,),
        lambda i: te.select(te.cast("int32", i.astype("int64") + 2**31) < 0, 1.0, 0.0),
        name="B",
    )
    assert_gives(te.create_schedule(B.op), [B], [], np.ones(4, "float32"))


def test_a_cast_to_fewer_bits_that_fits_is_decided() -> None:
    B = te.compute(
        (4,), lambda i: te.select(te.cast("int32", i.astype("int64") + 7) < 0, 1.0, 0.0), name="B"
    )
    analysed = assert_gives(te.create_schedule(B.op), [B], [], np.zeros(4, "float32"))
    assert "select" not in str(analysed)


def test_what_is_cast_to_fewer_bits_has_no_interval() -> None:
    i = Var("i")
    relaxer = Relaxer({i: const(4)})
    wide = i.astype("int64") * 2**31
    assert relaxer.interval(normal(as_index(te.cast("int32", wide) // 2))) is None
    same = relaxer.interval(normal(as_index(i.astype("int64") * 2)))
    assert same is not None
    assert str(same.width) == "6"
