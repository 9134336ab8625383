"""Factored reductions compute the same sums, and their partial results schedule like any stage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.agreement import assert_computes

from autotune import te
from autotune.errors import ScheduleError
from autotune.ir.axes import IterVar
from autotune.ir.expr import KnobVar
from autotune.schedule.schedule import Schedule
from autotune.te.tensor import Tensor


def row_sums(rows: int = 5, columns: int = 37) -> tuple[Tensor, Tensor, Schedule]:
    A = te.placeholder((rows, columns), name="A")
    k = te.reduce_axis((0, columns), "k")
    B = te.compute((rows,), lambda i: te.sum(A[i, k], axis=k), name="B")
    return A, B, te.create_schedule(B.op)


@pytest.mark.parametrize("size", [1, 4, 37, 64])
@pytest.mark.parametrize("by", ["factor", "nparts"])
@pytest.mark.parametrize("which", [0, 1])
def test_either_part_of_a_split_can_be_factored(size: int, by: str, which: int) -> None:
    A, B, s = row_sums()
    parts = s[B].split(s[B].op.reduce_axis[0], **{by: size})
    s.rfactor(B, parts[which])
    assert_computes(s, [A, B])


@pytest.mark.parametrize("position", [0, 1, -1, -2])
def test_the_factored_axis_stands_where_it_is_wanted(position: int) -> None:
    A, B, s = row_sums()
    _, inner = s[B].split(s[B].op.reduce_axis[0], 8)
    partial = s.rfactor(B, inner, factor_axis=position)
    assert partial.shape == ((8, 5) if position in (0, -2) else (5, 8))
    assert_computes(s, [A, B])


def test_a_whole_reduction_axis_can_be_factored() -> None:
    A, B, s = row_sums()
    partial = s.rfactor(B, s[B].op.reduce_axis[0])
    assert partial.op.reduce_axis == ()
    assert_computes(s, [A, B])


def test_partial_sums_become_lanes_of_a_vector() -> None:
    A, B, s = row_sums(4, 64)
    _, inner = s[B].split(s[B].op.reduce_axis[0], 16)
    partial = s.rfactor(B, inner, factor_axis=1)
    s[partial].compute_at(s[B], s[B].op.axis[0])
    lane = s[partial].op.axis[1]
    s[partial].reorder(s[partial].op.reduce_axis[0], lane)
    s[partial].vectorize(lane)
    s[partial].set_scope("local")
    final = assert_computes(s, [A, B])
    assert not final.info.not_vectorized
    assert "ramp(" in str(final)


def test_partial_sums_are_shared_among_threads() -> None:
    A, B, s = row_sums(2, 100)
    outer, _ = s[B].split(s[B].op.reduce_axis[0], nparts=4)
    partial = s.rfactor(B, outer)
    s[partial].parallel(s[partial].op.axis[0])
    assert_computes(s, [A, B])


def test_every_reduction_loop_but_the_factored_one_stays_a_reduction() -> None:
    A = te.placeholder((3, 6, 10), name="A")
    j, k = te.reduce_axis((0, 6), "j"), te.reduce_axis((2, 10), "k")
    B = te.compute((3,), lambda i: te.max(A[i, j, k], axis=[j, k], where=j + k > 4), name="B")
    s = te.create_schedule(B.op)
    fused = s[B].fuse(*s[B].op.reduce_axis)
    outer, inner = s[B].split(fused, 5)
    outer_outer, outer_inner = s[B].split(outer, 3)
    partial = s.rfactor(B, outer_inner)
    assert [a.name for a in partial.op.reduce_axis] == [outer_outer.name, inner.name]
    assert_computes(s, [A, B])


def test_a_tuple_reduction_is_factored_together() -> None:
    argmin = te.comm_reducer(
        lambda x, y: (te.select(x[1] <= y[1], x[0], y[0]), te.min(x[1], y[1])),
        lambda index, value: (te.const(-1, index), te.const(1e30, value)),
        name="argmin",
    )
    A = te.placeholder((4, 30), name="A")
    k = te.reduce_axis((0, 30), "k")
    outputs = te.compute((4,), lambda i: argmin((k.var, A[i, k]), axis=k), name="B")
    s = te.create_schedule(outputs[0].op)
    outer, _ = s[outputs[0]].split(k, 8)
    partial = s.rfactor(outputs[0], outer)
    assert [t.dtype for t in partial] == ["int32", "float32"]
    values = np.random.default_rng(0).permutation(120).reshape(4, 30).astype(np.float32)
    assert_computes(s, [A, *outputs], {A: values})


def test_the_size_of_the_parts_may_be_a_knob() -> None:
    for value in (1, 5, 16, 37, 40):
        A, B, s = row_sums()
        knob = KnobVar("size", 1, 40)
        _, inner = s[B].split(s[B].op.reduce_axis[0], knob)
        s.rfactor(B, inner)
        assert_computes(s, [A, B], knobs={knob: value})


def test_a_reduction_of_symbolic_length_is_factored() -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    k = te.reduce_axis((0, n), "k")
    B = te.compute((1,), lambda i: te.sum(A[k], axis=k), name="B")
    s = te.create_schedule(B.op)
    _, inner = s[B].split(s[B].op.reduce_axis[0], 8)
    partial = s.rfactor(B, inner)
    s[partial].vectorize(s[partial].op.axis[0])
    from autotune.builder import build

    built = build(s, [A, B], "llvm")
    for size in (0, 1, 7, 8, 100):
        out = np.full(1, 7, np.float32)
        built(np.ones(size, np.float32), out)
        assert out[0] == size


def test_a_factored_result_can_be_factored_again() -> None:
    A, B, s = row_sums(3, 64)
    outer, _ = s[B].split(s[B].op.reduce_axis[0], 4)
    first = s.rfactor(B, outer)
    again, _ = s[first].split(s[first].op.reduce_axis[0], 2)
    s.rfactor(first, again)
    assert_computes(s, [A, B])


def test_cached_results_of_a_tuple_reduction() -> None:
    both = te.comm_reducer(
        lambda x, y: (x[0] + y[0], te.max(x[1], y[1])),
        lambda a, b: (te.const(0, a), te.const(-1e30, b)),
        name="both",
    )
    A = te.placeholder((6, 9), name="A")
    k = te.reduce_axis((0, 9), "k")
    outputs = te.compute((6,), lambda i: both((A[i, k], A[i, k]), axis=k), name="B")
    s = te.create_schedule(outputs[0].op)
    cached = s.cache_write(outputs[0], "local")
    assert [t.name for t in cached] == ["B.local.v0", "B.local.v1"]
    outer, _ = s[outputs[0]].split(s[outputs[0]].op.axis[0], 2)
    s[cached[0]].compute_at(s[outputs[0]], outer)
    assert_computes(s, [A, *outputs])


def test_partial_results_are_computed_where_the_reduction_was() -> None:
    A = te.placeholder((4, 12), name="A")
    X = te.compute((4, 12), lambda i, j: A[i, j] * 2, name="X")
    k = te.reduce_axis((0, 12), "k")
    Y = te.compute((4,), lambda i: te.sum(X[i, k], axis=k), name="Y")
    Z = te.compute((4,), lambda i: Y[i] + 1, name="Z")
    s = te.create_schedule(Z.op)
    row = Z.op.axis[0]
    s[Y].compute_at(s[Z], row)
    s[X].compute_at(s[Z], row)
    outer, _ = s[Y].split(k, 4)
    partial = s.rfactor(Y, outer)
    assert s[partial].attach_point == s[Y].attach_point
    assert_computes(s, [A, Z])


def test_copies_stand_where_what_they_copy_is_computed() -> None:
    A = te.placeholder((4, 12), name="A")
    X = te.compute((4, 12), lambda i, j: A[i, j] * 2, name="X")
    Y = te.compute((4, 12), lambda i, j: X[i, 11 - j] + 1, name="Y")
    Z = te.compute((4, 12), lambda i, j: Y[i, j] + 1, name="Z")
    s = te.create_schedule(Z.op)
    for stage in (Y, X):
        s[stage].compute_at(s[Z], Z.op.axis[0])
    s.cache_read(X, "local", [Y])
    s.cache_write(Y, "local")
    assert {stage.attach_point for stage in s.stages if stage.attach_point is not None} == {
        s[Y].attach_point
    }
    assert_computes(s, [A, Z])


Prepare = Callable[[Schedule, Tensor], tuple[IterVar, Any]]


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (
            lambda s, B: (s[B].op.axis[0], 0),
            "rfactor on stage 'B': 'i' is a spatial axis; give a reduction axis, or a part of one "
            "made by split",
        ),
        (
            lambda s, B: (s[B].op.reduce_axis[0], 2),
            "rfactor on stage 'B': factor_axis 2 is not a position among the 2 axes of the partial "
            "results; give one from -2 to 1",
        ),
        (
            lambda s, B: (s[B].op.reduce_axis[0], "a"),
            "rfactor on stage 'B': factor_axis must be an integer, got 'a'",
        ),
        (
            lambda s, B: (s[B].split(s[B].op.axis[0], 2) and s[B].op.reduce_axis[0], 0),
            "rfactor on stage 'B': its spatial loops were changed already, and rfactor gives the "
            "stage new loops; split the reduction, factor it, and schedule the rest afterwards",
        ),
        (
            lambda s, B: (s[B].parallel(s[B].op.axis[0]) or s[B].op.reduce_axis[0], 0),
            "rfactor on stage 'B': axis 'i' is annotated already, and rfactor gives the stage new "
            "loops; split the reduction, factor it, and schedule the rest afterwards",
        ),
    ],
)
def test_a_reduction_that_cannot_be_factored_says_why(prepare: Prepare, message: str) -> None:
    _, B, s = row_sums()
    axis, position = prepare(s, B)
    with pytest.raises(ScheduleError) as refused:
        s.rfactor(B, axis, position)
    assert str(refused.value) == message


def test_only_reductions_are_factored() -> None:
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i] + 1, name="B")
    s = te.create_schedule(B.op)
    with pytest.raises(ScheduleError, match="rfactor on stage 'B': it does not reduce"):
        s.rfactor(B, B.op.axis[0])
