"""Expressions: one object per structure, constants folded, types promoted, mistakes refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from autotune.errors import IRError
from autotune.ir import ops
from autotune.ir.axes import AxisKind, IterVar
from autotune.ir.evaluate.interpreter import evaluate
from autotune.ir.expr import (
    BinaryOp,
    Broadcast,
    Buffer,
    Call,
    Cast,
    Const,
    Expr,
    KnobVar,
    Load,
    Not,
    Ramp,
    Select,
    Var,
)
from autotune.ir.visitor import free_vars, substitute, walk_expr

X, J = Var("i"), Var("j")
F, D, L = Var("f", "float32"), Var("d", "float64"), Var("l", "int64")
A = Buffer("A", "float32", ())


def test_equal_structures_are_one_object() -> None:
    assert X * 4 + J is X * 4 + J
    assert Load(A, X + 1) is Load(A, X + 1)
    assert ops.select(X < J, X, J) is ops.select(X < J, X, J)
    assert Ramp(X, ops.const(1), 4) is Ramp(X, ops.const(1), 4)
    assert Cast("float32", X) is Cast("float32", X)


def test_what_differs_in_anything_is_another_object() -> None:
    assert X + J is not J + X
    assert BinaryOp("+", X, J) is not BinaryOp("-", X, J)
    assert Const(1, "int32") is not Const(1, "int64")
    assert Const(0.0, "float32") is not Const(-0.0, "float32")
    assert Ramp(X, ops.const(1), 4) is not Ramp(X, ops.const(1), 8)
    assert Broadcast(X, 2) is not Broadcast(X, 4)
    assert Load(A, X) is not Load(Buffer("A", "float32", ()), X)
    assert Call("exp", (F,), "float32") is not Call("log", (F,), "float32")


def test_variables_of_one_name_are_different() -> None:
    assert Var("i") is not Var("i")
    assert KnobVar("k", 1, 2) is not KnobVar("k", 1, 2)


def test_nan_constants_are_one_object() -> None:
    assert Const(math.nan, "float32") is Const(np.float32("nan"), "float32")


@pytest.mark.parametrize("op", ["+", "-", "*", "//", "%", "min", "max", "<", "<=", "==", "!="])
def test_integer_constants_fold_as_they_evaluate(op: str) -> None:
    for a in range(-4, 5):
        for b in range(-4, 5):
            if b == 0 and op in ("//", "%"):
                continue
            x, y = Var("x"), Var("y")
            folded = ops.binary(op, ops.const(a), ops.const(b))
            assert isinstance(folded, Const)
            assert folded.value == evaluate(BinaryOp(op, x, y), {x: a, y: b})


def test_folding_never_leaves_the_type() -> None:
    top = Const(2**31 - 1, "int32")
    assert isinstance(ops.binary("+", top, Const(1, "int32")), BinaryOp)
    assert ops.binary("+", top, Const(1, "int64")) is Const(2**31, "int64")


def test_float_constants_fold_with_one_rounding_in_their_type() -> None:
    third = ops.binary("/", Const(1, "float32"), Const(3, "float32"))
    assert isinstance(third, Const)
    assert third.value == float(np.float32(1) / np.float32(3))
    big = ops.binary("*", Const(3e38, "float32"), Const(10, "float32"))
    assert isinstance(big, Const)
    assert big.value == math.inf


@pytest.mark.parametrize(
    ("folded", "expected"),
    [
        (lambda: X + 0, X),
        (lambda: 0 + X, X),
        (lambda: X - 0, X),
        (lambda: X * 1, X),
        (lambda: 1 * X, X),
        (lambda: X * 0, Const(0, "int32")),
        (lambda: X // 1, X),
        (lambda: X % 1, Const(0, "int32")),
        (lambda: X - X, Const(0, "int32")),
        (lambda: ops.binary("min", X, X), X),
        (lambda: ops.binary("and", X < J, True), X < J),
        (lambda: ops.binary("and", X < J, False), Const(False, "bool")),
        (lambda: ops.binary("or", X < J, False), X < J),
        (lambda: ops.binary("or", X < J, True), Const(True, "bool")),
        (lambda: ops.binary("and", X < J, X < J), X < J),
        (lambda: ops.logical_not(ops.logical_not(X < J)), X < J),
        (lambda: ops.select(True, X, J), X),
        (lambda: ops.select(X < J, X, X), X),
        (lambda: ops.if_then_else(False, X, J), J),
        (lambda: ops.gcd(X, ops.const(1)), Const(1, "int32")),
        (lambda: ops.gcd(ops.const(12), ops.const(18)), Const(6, "int32")),
        (lambda: ops.likely(Const(True, "bool")), Const(True, "bool")),
        (lambda: -Const(3, "int32"), Const(-3, "int32")),
        (lambda: ops.cast("int32", Const(-1.5, "float32")), Const(-1, "int32")),
        (lambda: ops.cast("int32", X), X),
    ],
)
def test_neutral_elements_and_constants_fold_away(folded: Any, expected: Expr) -> None:
    assert folded() is expected


def test_floats_are_not_folded_where_nan_or_zero_signs_could_matter() -> None:
    for expr in (F * 0.0, F - F, F + 0.0):
        assert isinstance(expr, BinaryOp)


@pytest.mark.parametrize(
    ("a", "b", "dtype"),
    [
        (X, L, "int64"),
        (X, F, "float32"),
        (L, F, "float32"),
        (F, D, "float64"),
        (X < J, X, "int32"),
    ],
)
def test_the_stronger_type_wins(a: Expr, b: Expr, dtype: str) -> None:
    for result in (ops.binary("+", a, b), ops.binary("+", b, a)):
        assert result.dtype == dtype
        assert {child.dtype for child in result.children} == {dtype}


@pytest.mark.parametrize(
    ("expr", "number", "dtype"),
    [
        (L, 1, "int64"),
        (F, 2, "float32"),
        (D, 0.1, "float64"),
        (X, 2**40, "int64"),
        (X, 0.5, "float32"),
        (F, np.float64(0.1), "float32"),
    ],
)
def test_a_bare_number_takes_the_type_beside_it(expr: Expr, number: Any, dtype: str) -> None:
    assert (expr + number).dtype == dtype
    assert (number * expr).dtype == dtype


def test_a_float64_neighbour_keeps_all_digits_of_a_number() -> None:
    total = D + 0.1
    assert isinstance(total, BinaryOp)
    assert total.b is Const(0.1, "float64")


def test_scalars_are_broadcast_beside_vectors() -> None:
    ramp = Ramp(X, ops.const(1), 4)
    total = ramp + J
    assert total.lanes == 4
    assert total.children[1] is Broadcast(J, 4)


def test_comparisons_are_conditions() -> None:
    for expr in (X < J, X <= J, X > J, X >= J, X == J, X != J, X.equal(J)):
        assert expr.dtype == "bool"


def test_an_axis_stands_for_its_variable() -> None:
    axis = IterVar(X, None, AxisKind.SPATIAL)
    assert axis * 2 + 1 is X * 2 + 1


def test_the_truth_of_an_expression_is_refused_with_advice() -> None:
    with pytest.raises(IRError, match=r"not known before the program runs: use te\.if_then_else"):
        bool(X < J)
    assert bool(Const(True, "bool"))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: X / J, "`/` divides floats"),
        (lambda: F // 2, "`//` divides integers, not float32"),
        (lambda: F % 2, "`%` divides integers"),
        (lambda: ops.binary("and", X, J), "takes conditions, not int32"),
        (lambda: ops.logical_not(X), "not takes a condition"),
        (lambda: ops.select(X, X, J), "select takes a condition first"),
        (lambda: ops.if_then_else(X, X, J), "if_then_else takes a condition first"),
        (lambda: X // 0, "division by zero"),
        (lambda: X % 0, "division by zero"),
        (lambda: ops.binary("//", ops.const(3), ops.const(0)), "division by zero in `3 // 0`"),
        (lambda: ops.convert("text"), "cannot use a str"),
        (lambda: Var("h", "float8"), "unknown dtype 'float8'"),
        (lambda: BinaryOp("+", X, F), "differ in type: int32 and float32"),
        (lambda: BinaryOp("^", X, J), "unknown operation"),
        (lambda: Select(X < J, X, F), "branches of select differ"),
    ],
)
def test_mistakes_are_refused_in_one_line(wrong: Any, message: str) -> None:
    with pytest.raises(IRError) as caught:
        wrong()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_other_objects_are_left_to_python() -> None:
    with pytest.raises(TypeError):
        _ = X + "text"  # type: ignore[operator]
    with pytest.raises(TypeError):
        _ = X > []


def test_with_children_keeps_what_does_not_change() -> None:
    for node in (X + J, ops.select(X < J, X, J), Load(A, X), Not(X < J), Cast("int64", X)):
        assert node.with_children(node.children) is node
    assert Load(A, X).with_children((J,)) is Load(A, J)


def test_walk_yields_each_distinct_node_once_parents_first() -> None:
    shared = X + 1
    root = shared * shared
    nodes = list(walk_expr(root))
    assert nodes[0] is root
    assert len(nodes) == len({id(node) for node in nodes}) == 4


def test_free_variables_come_in_order_of_appearance() -> None:
    assert [var.name for var in free_vars(J * 2 + X + J)] == ["j", "i"]


def test_substitution_folds_what_becomes_constant() -> None:
    assert substitute(X * 4 + J, {X: ops.const(2), J: ops.const(1)}) is ops.const(9)
    assert substitute(X * J, {X: ops.const(1)}) is J
    assert substitute(X * J, {}) is X * J
