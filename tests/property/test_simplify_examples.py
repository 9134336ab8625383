"""The rules of the simplifier one by one: each fires on its example, and no other does its work."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from support.random_expressions import Ranges, assert_sound

from autotune.ir import ops
from autotune.ir.algebra import canonical_sums, division_rules, intervals, simplify_expr, sum_bounds
from autotune.ir.algebra.canonical_sums import Sum, Term, sum_expr
from autotune.ir.algebra.simplify_expr import Canonical
from autotune.ir.algebra.simplify_stmt import Simplifier
from autotune.ir.expr import Expr, KnobVar, SizeVar, Var
from autotune.ir.printer import expr_text

X, Y, Z = Var("x"), Var("y"), Var("z")
EIGHT = (X % 8 // 4) * 8 + (X % 4) * 2 - X % 8  # joins to x % 8, which its bounds do not tell


class Rule(NamedTuple):
    """An example of a rule, what becomes of it, and how to switch the rule off."""

    before: Expr
    after: str
    off: tuple[tuple[Any, str, Any], ...]
    ranges: dict[Var, tuple[int, int]] = {}  # noqa: RUF012


def never(module: Any, name: str) -> tuple[tuple[Any, str, Any], ...]:
    """Switch off a rule that returns None where it does not apply."""
    return ((module, name, lambda *args: None),)


def _without(terms: Any) -> list[Term]:
    return sorted(terms, key=lambda t: -t.scale)


def _variable(self: Canonical, node: Expr) -> Sum:
    return Sum((Term(node),)) if isinstance(node, Var) else FORM(self, node)


FORM = Canonical._form
UNJOINED = ((canonical_sums, "joined", _without), (simplify_expr, "joined", _without))
UNPARTED = ((Canonical, "_parts", staticmethod(lambda form, c: (Sum(), form))),)
UNFITTED = ((Canonical, "_is_remainder", lambda self, form, c: False),)
UNCHOSEN = ((Canonical, "_choice", lambda self, node: node),)
UNCOMPARED = ((Canonical, "_comparison", lambda self, node: node),)
UNBOUNDED = ((intervals, "binary_bounds", lambda op, x, y: intervals.ANYTHING),)
TERMWISE = ((Canonical, "_to_expr", lambda self, form, dtype: sum_expr(form, dtype)),)
SMALL = {Y: (0, 3)}

RULES: dict[str, Rule] = {
    "terms that differ in scale only are one": Rule(
        X * 3 - X * 2 <= X,
        "True",
        ((canonical_sums, "_insert", lambda terms, new: terms.append(new)),),
    ),
    "quotient and remainder of one index join": Rule((X // 4) * 4 + X % 4, "x", UNJOINED),
    "a quotient of a remainder joins the rest": Rule(
        ((X % 12) // 4) * 8 + (X % 4) * 2, "(floormod(x, 12)*2)", UNJOINED
    ),
    "an index that joining frees is a sum again": Rule(
        ((X + Y) // 4) * 4 + (X + Y) % 4 - X, "y", TERMWISE
    ),
    "a constant factor goes into every term": Rule(
        (X + Y) * 3, "((x*3) + (y*3))", ((Canonical, "_product", Canonical._opaque),)
    ),
    "what divides leaves a quotient": Rule((X * 4 + Y) // 4, "(floordiv(y, 4) + x)", UNPARTED),
    "what divides leaves a remainder": Rule((X * 4 + Y) % 4, "floormod(y, 4)", UNPARTED),
    "a quotient of what is small is 0": Rule((X * 4 + Y) // 4, "x", UNFITTED, SMALL),
    "a remainder of what is small is itself": Rule((X * 4 + Y) % 4, "y", UNFITTED, SMALL),
    "quotient of a multiple": Rule(
        ((X // 4) * 8 + (X % 4) * 2 + X * 30) // 16,
        "(x*2)",
        never(division_rules, "quotient_of_a_multiple"),
    ),
    "quotient of a quotient": Rule(
        (X // 3) // 4, "floordiv(x, 12)", never(division_rules, "quotient_of_a_quotient")
    ),
    "quotient of a small remainder": Rule(
        EIGHT // 16, "0", never(division_rules, "quotient_of_a_small_remainder")
    ),
    "quotient of an uneven remainder": Rule(
        ((X % 6) * 2) // 8,
        "floordiv(floormod(x, 6), 4)",
        never(division_rules, "quotient_of_an_uneven_remainder"),
    ),
    "remainder of a multiple": Rule(
        ((X // 4) * 8 + (X % 4) * 2 + X * 30) % 16,
        "0",
        never(division_rules, "remainder_of_a_multiple"),
    ),
    "remainder of a quotient": Rule(
        (X * 2) % 8, "(floormod(x, 4)*2)", never(division_rules, "remainder_of_a_quotient")
    ),
    "remainder of a remainder": Rule(
        (X % 12) % 4, "floormod(x, 4)", never(division_rules, "remainder_of_a_remainder")
    ),
    "remainder of a small remainder": Rule(
        EIGHT % 16, "floormod(x, 8)", never(division_rules, "remainder_of_a_small_remainder")
    ),
    "the least of two is known": Rule(
        ops.binary("min", X, X + 1), "x", ((Canonical, "_extremum", Canonical._opaque),)
    ),
    "the greatest of two is known": Rule(
        ops.binary("max", X, Y - 1), "x", ((Canonical, "_extremum", Canonical._opaque),),
        {X: (3, 9), **SMALL},
    ),
    "a comparison is decided by its bounds": Rule(
        Y < 4, "True", never(simplify_expr, "decide_comparison"), SMALL
    ),
    "greater is written as less": Rule(X > Y, "(y < x)", UNCOMPARED),
    "a constant goes to the other side": Rule(X + 3 <= 7, "(x <= 4)", UNCOMPARED),
    "a decided select is its side": Rule(ops.select(Y < 4, X, Z), "x", UNCHOSEN, SMALL),
    "a decided if_then_else is its side": Rule(
        ops.if_then_else(Y < 0, X, Z), "z", UNCHOSEN, SMALL
    ),
    "a variable whose bounds meet is constant": Rule(
        X * 7 + Y, "(y + 21)", ((Canonical, "_form", _variable),), {X: (3, 3)}
    ),
    "a quotient has bounds": Rule(Y // Z < 2, "True", UNBOUNDED, {**SMALL, Z: (2, 3)}),
    "a remainder has bounds": Rule(X % Y < 3, "True", UNBOUNDED, {Y: (1, 3)}),
    "a product has bounds": Rule(Y * Y < 10, "True", UNBOUNDED, SMALL),
    "a minimum has bounds": Rule(ops.binary("min", X, Y) < 4, "True", UNBOUNDED, SMALL),
    "a maximum has bounds": Rule(ops.binary("max", X, Y) >= 0, "True", UNBOUNDED, SMALL),
    "a quotient rounded up has tight bounds": Rule(
        (Y + Z) // Z >= 1, "True",
        ((sum_bounds.SumBounds, "_ceildiv_bounds", lambda self, node, bounds: bounds),),
        {**SMALL, Z: (1, 8)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RULES)
def test_a_rule_fires_and_nothing_else_does_its_work(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = RULES[name]
    assert expr_text(Simplifier(rule.ranges).expr(rule.before)) == rule.after
    for owner, attribute, replacement in rule.off:
        monkeypatch.setattr(owner, attribute, replacement)
    assert expr_text(Simplifier(rule.ranges).expr(rule.before)) != rule.after


@pytest.mark.parametrize("name", RULES)
def test_the_example_of_a_rule_keeps_every_value(name: str) -> None:
    rule = RULES[name]
    assert_sound(rule.before, {X: (-30, 30), Y: (-4, 9), Z: (1, 3), **rule.ranges})


@pytest.mark.parametrize(
    ("test", "ranges"),
    [
        (ops.select(X < 3, Y, Y + 1) < 5, {Y: (0, 3)}),
        (ops.cast("int64", Y) < 4, {Y: (0, 3)}),
        (ops.cast("int32", X < Y) < 2, {}),
        (ops.gcd(Y, Z) <= 3, {Y: (0, 3), Z: (1, 2)}),
        (ops.gcd(Y, Z) >= 1, {Y: (0, 3), Z: (1, 2)}),
        (SizeVar("n") >= 0, {}),
        (KnobVar("k", 2, 8) * 3 + 1 >= 7, {}),
        (Y % 4 + (X % 5) // 2 < 6, {}),
    ],
)
def test_bounds_of_an_expression_decide_a_comparison(test: Expr, ranges: Ranges) -> None:
    assert expr_text(Simplifier(ranges).expr(test)) == "True"
