"""Reducers: products, user-defined ones, several values at once, and the types sums are done in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.agreement import assert_computes

from autotune import te
from autotune.errors import IRError
from autotune.ir import dtypes
from autotune.ir.stmt import Allocate
from autotune.ir.visitor import walk
from autotune.te.reduction import Reducer
from autotune.te.tensor import Tensor


def argmax() -> Reducer:
    return te.comm_reducer(
        lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.max(x[1], y[1])),
        lambda index, value: (te.const(-1, index), te.const(-1e30, value)),
        name="argmax",
    )


def complex_product() -> Reducer:
    """Each part of the product needs both old parts: no order of stores is right."""
    return te.comm_reducer(
        lambda x, y: (x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]),
        lambda re, im: (te.const(1, re), te.const(0, im)),
        name="complex_product",
    )


def argmax_of_rows() -> tuple[Tensor, list[Tensor]]:
    A = te.placeholder((5, 12), name="A")
    k = te.reduce_axis((0, 12), "k")
    return A, te.compute((5,), lambda i: argmax()((k.var, A[i, k]), axis=k), name="argmax")


def test_a_product_is_that_of_numpy() -> None:
    A = te.placeholder((3, 7), name="A")
    k = te.reduce_axis((0, 7), "k")
    B = te.compute((3,), lambda i: te.prod(A[i, k], axis=k), name="B")
    assert_computes(te.create_schedule(B.op), [A, B])


def test_a_sum_over_several_axes_with_a_condition() -> None:
    A = te.placeholder((3, 5, 7), name="A")
    j, k = te.reduce_axis((0, 5), "j"), te.reduce_axis((1, 7), "k")
    B = te.compute((3,), lambda i: te.sum(A[i, j, k], axis=[j, k], where=j < k), name="B")
    s = te.create_schedule(B.op)
    s[B].reorder(k, B.op.axis[0], j)
    assert_computes(s, [A, B])


def test_a_reducer_of_one_value() -> None:
    A = te.placeholder((4, 9), "int32", name="A")
    k = te.reduce_axis((0, 9), "k")
    largest = te.comm_reducer(
        lambda x, y: te.max(te.abs(x), te.abs(y)), lambda t: te.const(0, t), name="largest"
    )
    B = te.compute((4,), lambda i: largest(A[i, k], axis=k), name="B")
    assert_computes(te.create_schedule(B.op), [A, B])


def test_argmax_gives_the_first_place_and_the_value() -> None:
    A, outputs = argmax_of_rows()
    values = np.random.default_rng(1).standard_normal((5, 12)).astype(np.float32)
    values[2, 4] = values[2, 9] = 7
    final = assert_computes(te.create_schedule(outputs[0].op), [A, *outputs], {A: values})
    assert not any(isinstance(s, Allocate) for s in walk(final.body))


def test_argmax_is_the_same_when_rows_are_lanes_of_a_vector() -> None:
    A, outputs = argmax_of_rows()
    s = te.create_schedule(outputs[0].op)
    stage = s[outputs[0]]
    i = stage.op.axis[0]
    stage.reorder(*stage.op.reduce_axis, i)
    stage.vectorize(i)
    final = assert_computes(s, [A, *outputs])
    assert not final.info.not_vectorized


def test_values_that_need_each_other_s_old_values_are_set_aside() -> None:
    A = te.placeholder((3, 6), "float64", name="A")
    B = te.placeholder((3, 6), "float64", name="B")
    k = te.reduce_axis((0, 6), "k")
    reducer = complex_product()
    parts = te.compute((3,), lambda i: reducer((A[i, k], B[i, k]), axis=k), name="P")
    final = assert_computes(te.create_schedule(parts[0].op), [A, B, *parts])
    assert [s.buffer.scope for s in walk(final.body) if isinstance(s, Allocate)] == ["local"] * 2


def test_values_are_set_aside_in_every_lane_of_a_vector() -> None:
    A = te.placeholder((8, 6), "float64", name="A")
    B = te.placeholder((8, 6), "float64", name="B")
    k = te.reduce_axis((0, 6), "k")
    reducer = complex_product()
    parts = te.compute((8,), lambda i: reducer((A[i, k], B[i, k]), axis=k), name="P")
    s = te.create_schedule(parts[0].op)
    s[parts[0]].reorder(k, parts[0].op.axis[0])
    s[parts[0]].vectorize(parts[0].op.axis[0])
    final = assert_computes(s, [A, B, *parts])
    assert not final.info.not_vectorized


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_floats_are_multiplied_and_summed_in_float32(dtype: str) -> None:
    A = te.placeholder((3, 300), dtype, name="A")
    k = te.reduce_axis((0, 300), "k")
    B = te.compute((3,), lambda i: te.sum(A[i, k] * A[i, k], axis=k), name="B")
    assert B.dtype == "float32"
    third = np.full((3, 300), 1 / 3, dtypes.numpy_dtype(dtype))
    assert_computes(te.create_schedule(B.op), [A, B], {A: third})
    own = te.compute((3,), lambda i: te.sum(A[i, k], axis=k, dtype=dtype), name="B")
    assert own.dtype == dtype


def test_parts_of_a_tuple_may_be_read_by_another_stage() -> None:
    A, (where, largest) = argmax_of_rows()
    B = te.compute((5,), lambda i: largest[i] * where[i].astype("float32"), name="B")
    s = te.create_schedule(B.op)
    s[where].compute_at(s[B], B.op.axis[0])
    assert_computes(s, [A, B])


def test_a_compute_of_several_values_stores_each() -> None:
    A = te.placeholder((4, 8), name="A")
    B, C = te.compute((4, 8), lambda i, j: (A[i, j] + 1, A[i, 7 - j].astype("int32")), name="BC")
    s = te.create_schedule(B.op)
    s[B].vectorize(B.op.axis[1])
    assert_computes(s, [A, B, C])


def test_an_index_may_be_read_from_a_tensor() -> None:
    A = te.placeholder((6, 4), name="A")
    I = te.placeholder((5,), "int64", name="I")  # noqa: E741
    B = te.compute((5, 4), lambda i, j: A[I[i], j], name="B")
    s = te.create_schedule(B.op)
    s[B].vectorize(B.op.axis[1])
    assert_computes(s, [A, I, B], {I: np.array([5, 0, 3, 3, 1])})


def test_an_intermediate_tensor_is_gathered_from() -> None:
    A = te.placeholder((6,), name="A")
    I = te.placeholder((8,), "int32", name="I")  # noqa: E741
    D = te.compute((6,), lambda i: A[i] * 2, name="D")
    B = te.compute((8,), lambda i: D[I[i]] + D[i // 2], name="B")
    s = te.create_schedule(B.op)
    outer, inner = s[B].split(B.op.axis[0], 4)
    s[D].compute_at(s[B], outer)
    s[B].vectorize(inner)
    assert_computes(s, [A, I, B], {I: np.array([5, 0, 3, 3, 1, 2, 2, 4], np.int32)})


def test_a_reducer_is_one_combiner_per_type() -> None:
    A, outputs = argmax_of_rows()
    again = argmax()
    k = outputs[0].op.reduce_axis[0]
    first = again((k.var, A[0, k]), axis=k)[0]
    assert first is again((k.var, A[0, k]), axis=k)[0]


@pytest.mark.parametrize(
    ("combine", "identity", "message"),
    [
        (lambda x, y: x, lambda t: (0, 0), "its identity must be one value, got (0, 0)"),
        (lambda x, y: (x, y), lambda t: 0, "its combination must be one value"),
        (lambda x, y: x + te.var("n"), lambda t: 0, "its combination uses 'n', which is none of"),
        (lambda x, y: x > y, lambda t: 0, "has type bool where float32 is reduced"),
        (lambda x, y: x, lambda t: "a", "'a' is not an expression (identity)"),
    ],
)
def test_a_reducer_that_cannot_be_one_says_why(combine: Any, identity: Any, message: str) -> None:
    A = te.placeholder((4,), name="A")
    k = te.reduce_axis((0, 4), "k")
    with pytest.raises(IRError) as refused:
        te.comm_reducer(combine, identity, name="mine")(A[k], axis=k)
    assert message in str(refused.value)
    assert "'mine'" in str(refused.value)


def test_a_reducer_needs_functions() -> None:
    with pytest.raises(IRError, match="comm_reducer 'r': fidentity must be a function, got 0"):
        te.comm_reducer(lambda x, y: x, 0, name="r")  # type: ignore[arg-type]


def test_the_type_of_a_sum_can_be_chosen() -> None:
    A = te.placeholder((3, 5), "int32", name="A")
    k = te.reduce_axis((0, 5), "k")
    B = te.compute((3,), lambda i: te.sum(A[i, k] * A[i, k], axis=k, dtype="float64"), name="B")
    assert B.dtype == "float64"
    assert_computes(te.create_schedule(B.op), [A, B])


def test_the_values_of_a_reduction_are_cached_by_one_or_by_a_list_of_them() -> None:
    for chosen in (slice(0, 1), slice(1, 2), slice(0, 2)):
        A, outputs = argmax_of_rows()
        s = te.create_schedule(outputs[0].op)
        caches = s.cache_write(outputs[chosen], "local")
        assert len(caches) == 2
        s[caches[0]].compute_at(s[outputs[0]], outputs[0].op.axis[0])
        assert_computes(s, [A, *outputs])
