"""The tensor-expression language: names, types, conversions and what computes are made of."""

from __future__ import annotations

import numpy as np
import pytest

from autotune import te
from autotune.ir.axes import AxisKind
from autotune.ir.expr import Call, Const, Expr, Read, Reduce, Select
from autotune.te.tensor import ComputeOp, Tensor


def A(dtype: str = "float32") -> Tensor:
    return te.placeholder((4, 6), dtype, name="A")


def body(expr_of: object, shape: tuple[int, ...] = (4,)) -> Expr:
    tensor = te.compute(shape, expr_of, name="B")  # type: ignore[arg-type]
    assert isinstance(tensor.op, ComputeOp)
    return tensor.op.body[0]


def test_axes_are_named_as_the_function_names_its_indices() -> None:
    B = te.compute((2, 3, 4), lambda row, *rest: row + rest[0] + rest[1], name="B")
    assert [axis.name for axis in B.op.axis] == ["row", "i1", "i2"]
    assert all(axis.kind is AxisKind.SPATIAL for axis in B.op.axis)


def test_a_shape_may_be_one_size_and_reads_back_as_ints() -> None:
    n = te.var("n")
    assert te.placeholder(5, name="X").shape == (5,)
    assert te.placeholder((np.int64(3), n), name="X").shape[0] == 3
    assert te.placeholder((3, n), name="X").shape[1] is n
    assert te.placeholder((3, n), name="X").ndim == 2


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        ("float32", "float32", "float32"),
        ("int32", "int64", "int64"),
        ("int64", "float32", "float32"),
        ("float32", "float64", "float64"),
        ("int32", "float64", "float64"),
        ("bool", "int32", "int32"),
    ],
)
def test_operands_are_promoted_to_the_stronger_type(left: str, right: str, result: str) -> None:
    x = te.placeholder((4,), left, name="X")
    y = te.placeholder((4,), right, name="Y")
    assert body(lambda i: x[i] + y[i]).dtype == result
    assert body(lambda i: y[i] + x[i]).dtype == result


def test_a_comparison_is_a_condition_and_equality_of_axes_is_written_equal() -> None:
    assert body(lambda i: te.select(i.equal(2), 1.0, 0.0)).children[0].dtype == "bool"
    assert body(lambda i: te.all(i >= 1, i < 3, A()[i, 0] > 0)).dtype == "bool"
    assert body(lambda i: te.any(i < 1, i > 2)).dtype == "bool"


def test_min_and_max_take_two_values_or_an_axis() -> None:
    k = te.reduce_axis((1, 6), "k")
    assert body(lambda i: te.max(A()[i, 0], 0)).dtype == "float32"
    for reduce, identity in ((te.max, -np.inf), (te.min, np.inf), (te.sum, 0.0)):
        node = body(lambda i, reduce=reduce: reduce(A()[i, k], axis=k))
        assert isinstance(node, Reduce)
        assert node.axes == (k,)
        (start,) = node.combiner.identity
        assert isinstance(start, Const)
        assert start.value == identity
    assert te.max(3, 5) == 5
    assert te.min(te.max(3, 5), 4) == 4


def test_identities_of_integer_reductions_are_the_limits_of_the_type() -> None:
    k = te.reduce_axis((0, 6), "k")
    node = body(lambda i: te.max(A("int64")[i, k], axis=k))
    assert isinstance(node, Reduce)
    assert node.combiner.identity[0].value == np.iinfo("int64").min  # type: ignore[attr-defined]


def test_a_compute_knows_its_inputs_in_order_and_each_once() -> None:
    x, y = te.placeholder((4,), name="X"), te.placeholder((4,), name="Y")
    B = te.compute((4,), lambda i: y[i] * x[i] + y[3 - i], name="B")
    assert [t.name for t in B.op.input_tensors] == ["Y", "X"]
    assert x.op.input_tensors == []


def test_several_values_are_several_tensors_of_one_operation() -> None:
    x = A()
    B = te.compute((4,), lambda i: (x[i, 0], x[i, 1].astype("int32")), name="B")
    assert [t.name for t in B] == ["B.v0", "B.v1"]
    assert [t.dtype for t in B] == ["float32", "int32"]
    assert B[0].op is B[1].op


def test_if_then_else_is_lazy_and_select_is_not() -> None:
    x = A()
    lazy = body(lambda i: te.if_then_else(i > 0, x[i - 1, 0], 0.0))
    assert isinstance(lazy, Call)
    assert lazy.name == "if_then_else"
    assert isinstance(body(lambda i: te.select(i > 0, x[i, 0], 0.0)), Select)


def test_a_tensor_without_dimensions_needs_no_index() -> None:
    k = te.reduce_axis((0, 6), "k")
    total = te.compute((), lambda: te.sum(A()[0, k], axis=k), name="T")
    node = body(lambda i: total + i)
    assert isinstance(node.children[0], Read)


def test_a_read_that_a_condition_guards_may_leave_the_tensor() -> None:
    x, k = A(), te.reduce_axis((0, 6), "k")
    assert body(lambda i: te.if_then_else(i > 0, x[i - 1, 0], 0.0)).dtype == "float32"
    assert body(lambda i: te.sum(x[i, k + 1], axis=k, where=k < 5)).dtype == "float32"
    assert body(lambda i: x[(i * 7) % 4, te.min(i + 3, 5)]).dtype == "float32"


def test_steps_of_a_schedule_are_data() -> None:
    x = A()
    B = te.compute((4, 6), lambda i, j: x[i, j] + 1, name="B")
    s = te.create_schedule(B.op)
    outer, inner = s[B].split(B.op.axis[1], factor=4)
    s[B].reorder(outer, B.op.axis[0], inner)
    s[B].vectorize(inner)
    assert [str(step) for step in s.steps] == [
        "B.split(j#1, factor, 4)",
        "B.reorder(j.outer#2, i#0, j.inner#3)",
        "B.vectorize(j.inner#3)",
    ]


def test_steps_tell_stages_and_axes_of_one_name_apart() -> None:
    x = A()
    B = te.compute((4, 6), lambda i, j: x[i, j] + 1, name="B")
    C = te.compute((4, 6), lambda i, _: x[i, 0] * B[i, 0], name="B")
    s = te.create_schedule(C.op)
    copies = [s.cache_read(x, "local", [reader]) for reader in (B, C)]
    for tensor in (B, C, *copies):
        s[tensor].unroll(tensor.op.axis[0])
    s[copies[1]].compute_at(s[C], C.op.axis[1])
    assert [str(step) for step in s.steps] == [
        "A.local.cache_read(A, 0, local, B)",
        "A.local#1.cache_read(A, 0, local, B#1)",
        "B.unroll(i#0)",
        "B#1.unroll(i#0)",
        "A.local.unroll(ax0#0)",
        "A.local#1.unroll(ax0#0)",
        "A.local#1.compute_at(B#1, _#1)",
    ]


def test_axes_of_one_name_have_positions_of_their_own() -> None:
    i, j = te.reduce_axis((0, 3), "i"), te.reduce_axis((0, 5), "i")
    B = te.compute((), lambda: te.sum(A()[i, j], axis=[i, j]), name="B")
    steps: list[str] = []
    for axis in (i, j):
        s = te.create_schedule(B.op)
        s[B].split(axis, factor=2)
        steps += map(str, s.steps)
    assert steps == ["B.split(i#0, factor, 2)", "B.split(i#1, factor, 2)"]


def test_the_condition_of_a_reduction_is_printed() -> None:
    k = te.reduce_axis((0, 6), "k")
    assert str(body(lambda i: te.sum(A()[i, k], axis=k))) == "sum(A[i, k], axis=[k])"
    text = str(body(lambda i: te.sum(A()[i, k], axis=k, where=k < 5)))
    assert text == "sum(A[i, k], axis=[k], where=(k < 5))"


def test_a_schedule_lists_its_stages_producers_first() -> None:
    x = A()
    B = te.compute((4, 6), lambda i, j: x[i, j] + 1, name="B")
    C = te.compute((4, 6), lambda i, j: x[i, j] * B[i, j], name="C")
    s = te.create_schedule(C.op)
    cached = s.cache_read(x, "local", [C])
    written = s.cache_write(C, "local")
    names = [stage.name for stage in s.stages]
    assert names.index("A") < names.index("A.local") < names.index("C.local") < names.index("C")
    assert names.index("B") < names.index("C.local")
    assert [r.name for r in s.readers(cached)] == ["C.local"]
    assert [r.name for r in s.readers(written)] == ["C"]
    assert [r.name for r in s.readers(x)] == ["A.local", "B"]


def test_a_tensor_in_an_index_is_computed_before_the_one_that_it_indexes() -> None:
    X = te.placeholder((8,), "int32", "X")
    A = te.compute((8,), lambda i: X[i] + 1.5, name="A")
    I = te.compute((8,), lambda i: X[i] + 1, name="I")  # noqa: E741
    B = te.compute((8,), lambda i: A[I[i] % 8] * 2, name="B")
    assert [tensor.name for tensor in B.op.input_tensors] == ["I", "A"]
    assert [stage.name for stage in te.create_schedule(B.op).stages] == ["X", "I", "A", "B"]


def test_other_spellings_of_the_field_are_understood() -> None:
    A = te.placeholder((8, 8), name="A")
    B = te.compute(
        (64,), lambda i: A[te.indexdiv(i, 8), te.indexmod(i, 8)], name="B", tag="flattened"
    )
    C = te.compute((64,), lambda i: A[te.floordiv(i, 8), te.floormod(i, 8)], name="C")
    assert B.op.tag == "flattened"
    assert C.op.tag == ""
    assert str(B.op.body[0]) == str(C.op.body[0]) == "A[floordiv(i, 8), floormod(i, 8)]"
    assert te.size_var("n").dtype == te.var("n").dtype
    assert te.thread_axis(tag="threadIdx.x").thread_tag == "threadIdx.x"
