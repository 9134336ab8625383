"""Sizes that are 0, known only to a call, or loaded: loops, regions and buffers fit them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.agreement import assert_computes, assert_gives, lowered, numbers

from autotune import te
from autotune.ir.evaluate.interpreter import interpret
from autotune.ir.expr import Const, KnobVar
from autotune.ir.stmt import Allocate, Store
from autotune.ir.visitor import walk
from autotune.runtime.cpu.llvm_compiler import compile_function
from autotune.runtime.object_cache import ObjectCache


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_a_region_that_starts_at_a_loaded_index_is_the_whole_tensor(dtype: str) -> None:
    A = te.placeholder((8,), name="A")
    where = te.placeholder((1,), dtype, name="W")
    B = te.compute((8,), lambda i: A[i] * 2, name="B")
    C = te.compute((4,), lambda i: B[where[0] + i], name="C")
    s = te.create_schedule(C.op)
    outer, _ = s[C].split(C.op.axis[0], factor=2)
    s[B].compute_at(s[C], outer)
    a = numbers(8)
    assert_gives(s, [A, where, C], [a, np.array([3], dtype)], a[3:7] * 2)


def test_axes_of_an_empty_tensor_can_be_fused_and_split() -> None:
    A = te.placeholder((0, 3), name="A")
    B = te.compute((0, 3), lambda i, j: A[i, j] * 2, name="B")
    C = te.compute((3, 0), lambda i, j: B[j, i] + 1, name="C")
    s = te.create_schedule(C.op)
    s[C].fuse(*C.op.axis)
    s[B].split(s[B].fuse(*B.op.axis), nparts=2)
    assert_gives(s, [A, C], [numbers(0, 3)], np.zeros((3, 0), "float32"))


def test_an_empty_reduction_gives_the_identity() -> None:
    k = te.reduce_axis((2, 2), "k")
    A = te.placeholder((5, 3), name="A")
    C = te.compute((3,), lambda i: te.sum(A[k, i], axis=k), name="C")
    s = te.create_schedule(C.op)
    s[C].split(k, factor=2)
    assert_gives(s, [A, C], [numbers(5, 3)], np.zeros(3, "float32"))


def test_a_buffer_whose_symbolic_size_is_a_choice_can_be_allocated() -> None:
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n, m), name="A")
    B = te.compute((n, m), lambda i, j: A[i, j] * 2, name="B")
    C = te.compute((n, m), lambda i, j: B[te.select(n < m, i, 0), j] + 1, name="C")
    s = te.create_schedule(C.op)
    _, final = lowered(s, [A, C])
    sizes = [str(x.buffer.shape[0]) for x in walk(final.body) if isinstance(x, Allocate)]
    assert any("select" in size for size in sizes), "the case is not reached any more"
    for size in (1, 2, 3, 4, 8):
        a = numbers(size, 3)
        assert_gives(s, [A, C], [a], (a if size < 3 else a[:1] + 0 * a) * 2 + 1)


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize(
    ("index", "number", "step"),
    [
        (lambda n, j: te.select(n > 3, j, j * 2), 1, 2),
        (lambda n, j: te.select(n > 3, j, j * 2), 5, 1),
        (lambda n, j: te.max(n, 0) * j, 2, 2),
        (lambda n, j: te.min(te.max(n, 0), 2) * j, 0, 0),
    ],
)
def test_a_loaded_number_is_in_no_extent(index: Any, number: int, step: int, at: int) -> None:
    A, n = te.placeholder((8,), name="A"), te.placeholder((1,), "int32", name="n")
    P = te.compute((8,), lambda i: A[i] * 2, name="P")
    C = te.compute((3, 4), lambda i, j: P[index(n[0], j)] + i, name="C")
    s = te.create_schedule(C.op)
    i, j = C.op.axis
    s[P].compute_at(s[C], (i, *s[C].split(j, factor=2))[at])
    a = numbers(8)
    want = a[np.arange(4) * step] * 2 + np.arange(3, dtype="float32")[:, None]
    analysed = assert_gives(s, [A, n, C], [a, np.array([number], "int32")], want)
    (allocation,) = [x for x in walk(analysed.body) if isinstance(x, Allocate)]
    assert all(isinstance(extent, Const) for extent in allocation.buffer.shape)


def test_an_axis_of_length_0_is_split_by_a_knob_and_fused_again() -> None:
    A = te.placeholder((0, 3), name="A")
    B = te.compute((0, 3), lambda i, j: A[i, j] + 1, name="B")
    s = te.create_schedule(B.op)
    knob = KnobVar("size", 1, 8)
    s[B].fuse(*s[B].split(s[B].op.axis[0], knob))
    assert_computes(s, [A, B], knobs={knob: 4})


def test_what_an_empty_loop_reads_is_empty_also_in_fused_loops() -> None:
    A = te.placeholder((8, 8), name="A")
    X = te.compute((8, 8), lambda i, j: A[i, j] + 1, name="X")
    Y = te.compute((0,), lambda i: X[i * 3, i * 2], name="Y")
    s = te.create_schedule(Y.op)
    s[X].fuse(*X.op.axis)
    final = assert_computes(s, [A, Y])
    assert not any(isinstance(stmt, Store) for stmt in walk(final.body))


def test_what_a_loop_of_symbolic_length_reads_is_empty_when_the_loop_is() -> None:
    n = te.var("n")
    A = te.placeholder((3 * n + 4, 2 * n + 4), name="A")
    X = te.compute((3 * n + 4, 2 * n + 4), lambda i, j: A[i, j] + 1, name="X")
    Y = te.compute((n,), lambda i: X[i * 3 + 1, i * 2 + 1], name="Y")
    s = te.create_schedule(Y.op)
    s[X].fuse(*X.op.axis)
    analysed, final = lowered(s, [A, Y])
    for size in (0, 1, 5):
        a = np.arange((3 * size + 4) * (2 * size + 4), dtype=np.float32)
        a = a.reshape(3 * size + 4, -1)
        want = a[1 : 3 * size + 1 : 3, 1 : 2 * size + 1 : 2].diagonal() + 1
        for function in (analysed, final):
            got = np.zeros(size, np.float32)
            interpret(function, [a, got])
            np.testing.assert_array_equal(got, want)
        got = np.zeros(size, np.float32)
        compile_function(final, cache=ObjectCache(None))(a, got)
        np.testing.assert_array_equal(got, want)
