"""What AutoTVM v0.8's form of the loops does that ours does not, item by item (decision 051)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from autotune import te
from autotune.extract.autotvm08 import autotvm08_loops
from autotune.feature import get_itervar_feature


def loops(tensors: list[Any], s: Any = None) -> str:
    schedule = te.create_schedule(tensors[-1].op) if s is None else s
    return str(autotvm08_loops(schedule, tensors))


def rows(tensors: list[Any], s: Any = None) -> list[Any]:
    schedule = te.create_schedule(tensors[-1].op) if s is None else s
    return get_itervar_feature(schedule, tensors, layout="autotvm08")


def strides(row: Any) -> dict[str, int]:
    return {touch[0]: touch[1] for touch in row[3:]}


A = te.placeholder((8, 8), name="A")


@pytest.mark.parametrize(
    ("body", "text", "counts"),
    [
        (lambda a, b: a * 1.0 + 0.0, "A[((i*8) + j)]", (0, 0, 0)),
        (lambda a, b: a - 0.0, "A[((i*8) + j)]", (0, 0, 0)),
        (lambda a, b: 0.0 + 1.0 * a, "A[((i*8) + j)]", (0, 0, 0)),
        (lambda a, b: a * 0.0 + b, "A[((j*8) + i)]", (0, 0, 0)),
        (lambda a, b: a / 4.0, "(A[((i*8) + j)]*0.25f)", (0, 1, 0)),
        (lambda a, b: a / b, "(A[((i*8) + j)]/A[((j*8) + i)])", (0, 0, 1)),
        (lambda a, b: -a, "(A[((i*8) + j)]*-1f)", (0, 1, 0)),
        (
            lambda a, b: te.select(a > b, a, b),
            "select((A[((j*8) + i)] < A[((i*8) + j)]), A[((i*8) + j)], A[((j*8) + i)])",
            (0, 0, 0),
        ),
        (
            lambda a, b: te.select(a < b, a, 1.0) + te.select(a < b, b, 2.0),
            "select((A[((i*8) + j)] < A[((j*8) + i)]), "
            "(A[((i*8) + j)] + A[((j*8) + i)]), 3f)",
            (1, 0, 0),
        ),
        (
            lambda a, b: te.select(a < b, a, b) - b,
            "select((A[((i*8) + j)] < A[((j*8) + i)]), (A[((i*8) + j)] - A[((j*8) + i)]), 0f)",
            (1, 0, 0),
        ),
        (
            lambda a, b: te.select(a < b, a, b) - a,
            "select((A[((i*8) + j)] < A[((j*8) + i)]), 0f, (A[((j*8) + i)] - A[((i*8) + j)]))",
            (1, 0, 0),
        ),
        (lambda a, b: te.select(a < b, b * 1.0, b), "A[((j*8) + i)]", (0, 0, 0)),
    ],
)
def test_floats_are_written_as_tvm_writes_them(
    body: Callable[[Any, Any], Any], text: str, counts: tuple[int, int, int]
) -> None:
    B = te.compute((8, 8), lambda i, j: body(A[i, j], A[j, i]), name="B")
    assert f"B[((i*8) + j)] = {text}\n" in loops([A, B])
    assert rows([A, B])[1][2] == ("_arith_", *counts)


def test_buffers_of_one_name_are_counted_together() -> None:
    B = te.compute((8, 8), lambda i, j: A[i, j] + 1.5, name="T")
    C = te.compute((8, 8), lambda i, j: B[i, j] + 1.5, name="T")
    found = rows([A, C])
    assert [touch[0] for touch in found[0][3:]] == ["A_0", "T_0"]
    assert [touch[0] for touch in found[2][3:]] == ["T_1", "T_2"]


def test_guards_are_facts_for_what_stands_under_them() -> None:
    B = te.compute((16, 4), lambda i, j: A[i // 2, j], name="B")
    s = te.create_schedule(B.op)
    fused = s[B].fuse(*B.op.axis)
    ty, rest = s[B].split(fused, nparts=16)
    tx, _ = s[B].split(rest, nparts=16)
    s[B].bind(ty, te.thread_axis("threadIdx.y"))
    s[B].bind(tx, te.thread_axis("threadIdx.x"))
    text = loops([A, B], s)
    assert "if (likely((threadIdx.x < 4)))" in text
    # (ty*4 + tx) // 4 is ty only because of the guard: 16 threads go along x.
    assert "A[((floordiv(threadIdx.y, 2)*8) + threadIdx.x)]" in text


def test_guards_are_facts_for_wide_integers_too() -> None:
    wide = te.placeholder((4,), "int64", name="W")
    B = te.compute(
        (4,), lambda i: te.if_then_else(i < 2, te.max(te.min(wide[i], 5), 2) * 3, 1), name="B"
    )
    assert "max(min(W[i], 5), 2)*3" in loops([wide, B])


def test_a_sum_that_leaves_a_remainder_keeps_its_factors_beside_the_one_outside() -> None:
    B = te.compute((4, 2), lambda i, j: A[(i * 2 + j) % 8, 0], name="B")
    assert "A[(((i*2) + j)*8)]" in loops([A, B])
    i, j = rows([A, B])
    assert (strides(i)["A_0"], strides(j)["A_0"]) == (2, 1)
    alone = te.compute((4, 2), lambda i, j: A[(i * 2) % 8, j], name="B")
    assert "A[((i*16) + j)]" in loops([A, alone])


def test_values_reduced_together_are_stored_in_order() -> None:
    k = te.reduce_axis((0, 8), "k")
    swap = te.comm_reducer(
        lambda x, y: (x[1] + y[0], x[0] + y[1]),
        lambda a, b: (te.const(0.0, a), te.const(0.0, b)),
    )
    B, C = te.compute((8,), lambda i: swap((A[i, k], A[k, i]), axis=k), name="B")
    s = te.create_schedule(B.op)
    assert "B.v0[i] = (B.v1[i] + A[((i*8) + k)])\n" in loops([A, B, C], s)
    assert ".new" not in loops([A, B, C], s)


def test_nothing_is_computed_ahead() -> None:
    B = te.compute((8, 8), lambda i, j: A[i, j] + 1.5, name="B")
    C = te.compute((8, 8), lambda i, j: B[i, j] * 2.5, name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    plain = rows([A, C], s)
    s[B].double_buffer()
    assert rows([A, C], s) == plain


@pytest.mark.parametrize("bound", ["outer", "inner"])
def test_a_split_larger_than_its_axis_keeps_its_size_for_threads_on_the_given_side(
    bound: str,
) -> None:
    B = te.compute((8, 8), lambda i, j: A[i, j] + 1.5, name="B")
    s = te.create_schedule(B.op)
    parts = dict(zip(("outer", "inner"), s[B].split(B.op.axis[0], factor=16), strict=True))
    s[B].bind(parts[bound], te.thread_axis("threadIdx.x"))
    lengths = [row[1][1] for row in rows([A, B], s)]
    assert lengths == ([1, 8, 8] if bound == "outer" else [1, 16, 8])


def test_after_an_empty_loop_products_from_outside_stay_zero() -> None:
    E = te.placeholder((0,), name="E")
    B = te.compute((0,), lambda i: E[i] + 1.5, name="B")
    C = te.compute((8,), lambda i: A[i, i] + 1.5, name="C")
    s = te.create_schedule([B.op, C.op])
    assert [row[1][3] for row in rows([E, A, B, C], s)] == [0, 0]


def test_conditions_of_reductions_are_read_guards_are_not() -> None:
    k = te.reduce_axis((0, 8), "k")
    B = te.compute((8,), lambda i: te.sum(A[i, k], axis=k, where=A[k, i] > 0.5), name="B")
    i, _ = rows([A, B])
    assert strides(i) == {"A_0": 1, "A_1": 8, "B_0": 1, "B_1": 1}


@pytest.mark.parametrize("kind", ["parallel", "vectorize"])
def test_annotations_that_nothing_could_run_are_read_all_the_same(kind: str) -> None:
    B = te.compute((8, 8), lambda i, j: A[i, j] + 1.5, name="B")
    s = te.create_schedule(B.op)
    for axis in B.op.axis:
        getattr(s[B], kind)(axis)
    hot = {"parallel": 8, "vectorize": 7}[kind]
    assert [row[1][5 + hot] for row in rows([A, B], s)] == [1, 1]


def test_lengths_that_a_call_decides_are_the_factor_minus_one() -> None:
    n = te.var("n")
    X = te.placeholder((n,), name="X")
    B = te.compute((n,), lambda i: X[i] + 1.5, name="B")
    s = te.create_schedule(B.op)
    s[B].split(B.op.axis[0], factor=32)
    outer, inner = rows([X, B], s)
    assert outer[1][1:5] == (-1, 1, -1, -1)
    assert inner[1][1:5] == (32, 2, -32, 32)
    assert outer[3] == ("B_0", 32, -1, -32, 1, 0, 0)
