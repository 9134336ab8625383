"""What the simplifier makes of expressions and statements: families exhaustively, forms one by one.

The rules by themselves are in `test_simplify_rules`, with examples in `test_simplify_examples`.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.random_expressions import assert_sound

from autotune.ir import ops
from autotune.ir.algebra.simplify_expr import Canonical
from autotune.ir.algebra.simplify_stmt import Simplifier
from autotune.ir.expr import BinaryOp, Buffer, Const, Expr, KnobVar, Load, SizeVar, Var
from autotune.ir.printer import expr_text, stmt_text
from autotune.ir.stmt import Allocate, For, If, LoopKind, Seq, Stmt, Store
from autotune.ir.visitor import walk_expr

EXAMPLES = int(os.environ.get("AUTOTUNE_EXAMPLES", "0"))
X, Y, Z = Var("x"), Var("y"), Var("z")


# -- families of expressions, exhaustively --------------------------------------------------------

DIVISORS = (1, 2, 3, 4, 6)
SCALES = (-4, -2, -1, 1, 2, 3, 4, 6)
OFFSETS = (-5, -1, 0, 1, 4)
SPANS = ((0, 0), (0, 3), (0, 7), (-4, 5))


def linear(a: int, b: int, c: int) -> Expr:
    return X * a + Y * b + c


FAMILIES: dict[str, Callable[[], Iterator[Expr]]] = {
    "quotient of a sum": lambda: (
        linear(a, b, c) // d
        for a, b, c, d in itertools.product(SCALES, (0, 1, 2, 6), OFFSETS, DIVISORS)
    ),
    "remainder of a sum": lambda: (
        linear(a, b, c) % d
        for a, b, c, d in itertools.product(SCALES, (0, 1, 2, 6), OFFSETS, DIVISORS)
    ),
    "quotient and remainder of one index joined": lambda: (
        (X // a) * b + (X % c) * d + Y
        for a, b, c, d in itertools.product(DIVISORS, SCALES, DIVISORS, (-1, 1, 2, 3))
    ),
    "quotient of a remainder joined with a quotient": lambda: (
        (X // a) * b + ((X % a) // c) * d
        for a, b, c, d in itertools.product((2, 4, 6, 12), SCALES, (1, 2, 3), (1, 2, -2))
    ),
    "nested quotients and remainders": lambda: (
        op3(op2(op1(X, a) * b + c, d), e)
        for op1, op2, op3 in itertools.product((_div, _mod), repeat=3)
        for a, b, c, d, e in itertools.product((2, 3, 6), (1, 2, 3), (0, 1), (2, 4, 6), (2, 3))
    ),
    "division by a negative or unknown number": lambda: (
        op(linear(a, 1, c), d)
        for op in (_div, _mod)
        for a, c, d in itertools.product((-2, 1, 3), OFFSETS, (ops.const(-3), ops.const(-1), Z))
    ),
    "least and greatest": lambda: (
        ops.binary(op, linear(a, 0, c), linear(b, 1, 0))
        for op in ("min", "max")
        for a, b, c in itertools.product((-1, 0, 1, 2), (-1, 0, 1, 2), (-20, -3, 0, 2, 20))
    ),
    "comparisons of sums": lambda: (
        ops.binary(op, linear(a, 0, c), linear(b, e, 1))
        for op in ("==", "!=", "<", "<=", ">", ">=")
        for a, b, c, e in itertools.product((-2, 0, 1), (0, 1, 3), (-25, -1, 0, 1, 25), (0, 1))
    ),
    "choices": lambda: (
        ops.select(linear(1, 1, c) < 0, linear(a, 1, 0), linear(b, 1, 2)) * 2 + X
        for a, b, c in itertools.product((0, 1, -2), (0, 1, 3), (-30, 0, 30))
    ),
    "conditions": lambda: (
        combine(a > X, b <= Y)
        for combine in (
            lambda p, q: ops.binary("and", p, q),
            lambda p, q: ops.binary("or", p, ops.logical_not(q)),
            lambda p, q: ops.likely(ops.binary("and", p, q)),
            lambda p, q: ops.if_then_else(p, q, ops.const(True)),
        )
        for a, b in itertools.product((-9, 0, 2, 9), repeat=2)
    ),
    "products and casts": lambda: (
        op((X + a) * (Y + b), Z).astype("int64") * 3 - (X * Y).astype("int64")
        for op in (_div, _mod)
        for a, b in itertools.product(OFFSETS, OFFSETS)
    ),
}


def _div(a: Any, b: Any) -> Expr:
    return ops.binary("//", a, b)


def _mod(a: Any, b: Any) -> Expr:
    return ops.binary("%", a, b)


def assert_keeps_values(expr: Expr, x_span: tuple[int, int]) -> None:
    names = {id(node) for node in walk_expr(expr)}
    ranges = {X: x_span, Y: (0, 4), Z: (1, 3)}
    assert_sound(expr, {v: r for v, r in ranges.items() if id(v) in names} or {X: x_span})


@pytest.mark.parametrize("family", FAMILIES)
def test_expressions_of_a_family_keep_every_value(family: str) -> None:
    """Each expression over one span of X; those of its neighbours in the family are others."""
    number = 0
    for number, expr in enumerate(FAMILIES[family]()):
        assert_keeps_values(expr, SPANS[(number + number // len(SPANS)) % len(SPANS)])
    assert number > len(SPANS)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_expressions_of_a_family_keep_every_value_over_every_span(family: str) -> None:
    for expr in FAMILIES[family]():
        for x_span in SPANS:
            assert_keeps_values(expr, x_span)


# -- random expressions ----------------------------------------------------------------------------


def _leaf() -> st.SearchStrategy[Expr]:
    return st.one_of(st.sampled_from([X, Y, Z]), st.integers(-6, 12).map(ops.const))


def _grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    positive = st.integers(1, 8).map(ops.const)
    condition = st.tuples(st.sampled_from(["<", "<=", "==", "!="]), inner, inner).map(
        lambda t: ops.binary(*t)
    )
    return st.one_of(
        st.tuples(st.sampled_from(["+", "-", "+", "min", "max"]), inner, inner).map(
            lambda t: ops.binary(*t)
        ),
        st.tuples(inner, st.integers(-4, 6)).map(lambda t: ops.binary("*", t[0], t[1])),
        st.tuples(inner, inner).map(lambda t: ops.binary("*", t[0], t[1])),
        st.tuples(st.sampled_from(["//", "%"]), inner, positive).map(lambda t: ops.binary(*t)),
        st.tuples(st.sampled_from(["//", "%"]), inner, positive).map(lambda t: ops.binary(*t)),
        st.tuples(condition, inner, inner).map(lambda t: ops.select(*t)),
        st.tuples(condition, inner, inner).map(lambda t: ops.if_then_else(*t)),
    )


INTEGERS = st.recursive(_leaf(), _grow, max_leaves=8)
CONDITIONS = st.tuples(st.sampled_from(["<", "<=", "==", "!=", ">", ">="]), INTEGERS, INTEGERS).map(
    lambda t: ops.binary(*t)
)
SPAN = st.tuples(st.integers(-3, 3), st.integers(0, 5)).map(lambda t: (t[0], t[0] + t[1]))


def examples(count: int) -> Any:
    return settings(
        max_examples=EXAMPLES or count, derandomize=not EXAMPLES, deadline=None, database=None
    )


@examples(100)
@given(st.one_of(INTEGERS, CONDITIONS), SPAN, SPAN, SPAN)
def test_simplification_and_bounds_are_sound_on_random_expressions(
    expr: Expr, x: tuple[int, int], y: tuple[int, int], z: tuple[int, int]
) -> None:
    assert_sound(expr, {X: x, Y: y, Z: z})


# -- particular forms --------------------------------------------------------------------------


def simplified(expr: Expr, **ranges: tuple[int, int]) -> str:
    known = {"x": X, "y": Y, "z": Z}
    return expr_text(Simplifier({known[n]: r for n, r in ranges.items()}).expr(expr))


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        ((X * 4 + Y) // 4, "x"),
        ((X * 4 + Y) % 4, "y"),
        ((X * 64 + Y) // 256, "floordiv(((x*64) + y), 256)"),
        ((X * 8 + Y) // 4, "(x*2)"),
        ((X // 4) * 4 + X % 4, "x"),
        (Y * 3 + X * 16 + 5, "(((x*16) + (y*3)) + 5)"),
        (X - Y * 2 - 1, "((x - (y*2)) - 1)"),
        ((X % 12) % 4, "floormod(x, 4)"),
        ((X // 3) // 4, "floordiv(x, 12)"),
        ((X * 6) // 4, "floordiv((x*6), 4)"),
    ],
)
def test_canonical_forms_read_as_in_listings(expr: Expr, text: str) -> None:
    assert simplified(expr, y=(0, 3)) == text


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        ((X * 64 + Y) // 256, "floordiv(x, 4)"),
        ((X * 64 + Y) % 256, "((floormod(x, 4)*64) + y)"),
        (((X // 30) * 10 + Y) // 40, "floordiv(x, 120)"),
        ((X * 3 + Y) // 6, "floordiv(((x*3) + y), 6)"),
        ((X * 64 + Y + 61) // 256, "floordiv((((x*64) + y) + 61), 256)"),
    ],
)
def test_a_digit_below_the_divisor_is_left_out_of_a_quotient(expr: Expr, text: str) -> None:
    assert expr_text(Canonical({Y: (0, 3)}, has_digits=True).expr(expr)) == text


def test_a_quotient_that_the_ranges_do_not_decide_stays() -> None:
    assert simplified((X * 64 + Y) // 256, x=(0, 255), y=(0, 63)) == ("floordiv(((x*64) + y), 256)")


def test_a_guard_is_decided_only_where_the_bounds_decide_it() -> None:
    guard = ops.likely(X * 7 + Y < 21)
    assert simplified(guard, x=(0, 2), y=(0, 6)) == "True"
    assert simplified(guard, x=(0, 2), y=(0, 7)) == "likely((((x*7) + y) < 21))"
    assert simplified(guard, x=(3, 4), y=(0, 6)) == "False"


def test_sizes_and_knobs_have_the_bounds_they_are_declared_with() -> None:
    n, k = SizeVar("n"), KnobVar("k", 2, 8)
    simplifier = Simplifier()
    assert simplifier.bounds(n) == (0, float("inf"))
    assert simplifier.bounds(k * 3 + 1) == (7, 25)
    assert isinstance(simplifier.expr(ops.binary("<", n * k, 0)), Const | BinaryOp)
    assert str(simplifier.expr(ops.binary(">=", k, 2))) == "True"


def test_learning_another_range_forgets_what_the_old_one_decided() -> None:
    simplifier = Simplifier({X: (0, 3)})
    guard = X < 4
    assert str(simplifier.expr(guard)) == "True"
    simplifier.bind(X, 0, 7)
    assert str(simplifier.expr(guard)) == "(x < 4)"


def test_bounds_are_exact_where_floats_are_not() -> None:
    wide = Var("w", "int64")
    simplifier = Simplifier({wide: (2**60, 2**60 + 2)})
    assert simplifier.bounds(wide * 3 + 1) == (3 * 2**60 + 1, 3 * 2**60 + 7)
    assert str(simplifier.expr(wide < ops.const(2**60 + 2, "int64"))) != "True"
    assert str(simplifier.expr(wide < ops.const(2**60 + 3, "int64"))) == "True"


def test_a_divisor_of_zeros_may_be_zero() -> None:
    assert Simplifier().bounds(ops.gcd(KnobVar("a", 0, 4), KnobVar("b", 0, 6))) == (0, 6)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ((X * 10**9) // 4, "floordiv(int32(uint32((x*1000000000))), 4)"),
        (ops.binary("max", X * 10**9, 0), "max(int32(uint32((x*1000000000))), 0)"),
        (
            ops.select(X * 10**9 >= 0, X, Y) // 1,
            "select((int32(uint32((x*1000000000))) >= 0), x, y)",
        ),
        ((X * 100) // 4, "(x*25)"),
        (X + 2147483640 < 2147483647, "(x < 7)"),
        (X * 3 * 10**8 - 10**8 + X * 2 * 10**7 < 5, "(((x*320000000) - 100000000) < 5)"),
        ((X * 10**9).astype("int64") + 1, "(int64(int32(uint32((x*1000000000)))) + 1)"),
        ((X * 10**9) * 4 + X, "(x*((61035*65536) + 10241))"),
    ],
)  # fmt: skip
def test_a_stored_value_is_divided_and_compared_only_where_nothing_wraps(
    value: Expr, text: str
) -> None:
    assert expr_text(Simplifier({X: (0, 7)}).value(value)) == text


# -- statements ------------------------------------------------------------------------------------

A, B = (Buffer(name, "int32", (ops.const(64),)) for name in "ab")
V, N = Var("i"), SizeVar("n")
STORE = Store(B, V, V * 4 // 4)


def loop(extent: Any, body: Stmt) -> For:
    return For(V, ops.convert(extent), LoopKind.SERIAL, body)


@pytest.mark.parametrize(
    ("stmt", "text"),
    [
        (loop(3, STORE), "for (i, 0, 3) {\n  b[i] = i\n}\n"),
        (loop(1, STORE), "for (i, 0, 1) {\n  b[0] = 0\n}\n"),
        (loop(0, STORE), ""),
        (loop(-2, STORE), ""),
        (loop(3, If(V < 3, STORE)), "for (i, 0, 3) {\n  b[i] = i\n}\n"),
        (loop(3, If(V >= 3, STORE)), "for (i, 0, 3) {\n}\n"),
        (loop(3, If(V >= 3, Seq(()), STORE)), "for (i, 0, 3) {\n  b[i] = i\n}\n"),
        (loop(N, If(V + 1 < N, loop(0, STORE))), "for (i, 0, n) {\n}\n"),
        (
            Allocate(Buffer("t", "int32", (N * 2 + N,), "local"), loop(0, STORE)),
            '// attr [t] storage_scope = "local"\nallocate t[int32 * (n*3)]\n',
        ),
    ],
)
def test_statements_are_simplified(stmt: Stmt, text: str) -> None:
    assert stmt_text(Simplifier().stmt(stmt)) == text


def test_accesses_follow_an_allocation_whose_extents_change() -> None:
    t = Buffer("t", "int32", (N + N,), "local")
    body = Seq((Store(t, V * 1 + 0 * N, Load(A, V)), Store(B, V, Load(t, V + N - N))))
    simpler = Simplifier().stmt(Allocate(t, body))
    assert isinstance(simpler, Allocate)
    assert isinstance(simpler.body, Seq)
    first, second = simpler.body.stmts
    assert isinstance(first, Store)
    assert isinstance(second, Store)
    assert first.buffer is simpler.buffer
    assert second.value is Load(simpler.buffer, V)
