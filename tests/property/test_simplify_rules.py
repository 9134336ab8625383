"""Every rule on sums, terms, bounds and constants, exhaustively on small ranges.

Also that each of their conditions is needed: without it some value would change.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from support.random_expressions import Array, Grid

from autotune.ir import ops
from autotune.ir.algebra import division_rules
from autotune.ir.algebra.canonical_sums import (
    INF,
    Sum,
    Term,
    add,
    joined,
    number,
    one_term,
    scaled,
    sum_expr,
    sum_of,
)
from autotune.ir.algebra.intervals import binary_bounds, decide_comparison
from autotune.ir.algebra.polynomials import joined as joined_poly
from autotune.ir.algebra.polynomials import to_expr, to_poly
from autotune.ir.algebra.simplify_stmt import Simplifier
from autotune.ir.expr import Const, Expr, Var

X = Var("x")
POINTS = np.arange(-30, 31)
DIVISORS = (1, 2, 3, 4, 6, 8, 12)
SCALES = (-6, -4, -3, -2, -1, 1, 2, 3, 4, 6, 8, 12)
TERMS = [
    Term(X, lower, upper, scale)
    for lower in (1, 2, 3, 4)
    for upper in (INF, lower, 2 * lower, 3 * lower, 4 * lower, 6 * lower)
    for scale in SCALES
]


@functools.cache
def value(term: Term) -> Array:
    """Values of a term at `POINTS`, by its definition."""
    atom = np.broadcast_to(Grid({X: POINTS}, wraps=False)(term.atom), POINTS.shape)
    inner = atom if term.upper == INF else atom % int(term.upper)
    return inner // term.lower * term.scale


def total(terms: Any, base: int = 0) -> Array:
    return sum(map(value, terms), np.full(POINTS.shape, base))


# -- the quotient and the remainder of a term ------------------------------------------------------

Rule = Callable[[Term, int], Term | None]
FORMS = Simplifier().form
QUOTIENTS: dict[str, Rule] = {
    "of a multiple": division_rules.quotient_of_a_multiple,
    "of a quotient": division_rules.quotient_of_a_quotient,
    "of a small remainder": lambda t, c: division_rules.quotient_of_a_small_remainder(
        t, c, "int32"
    ),
    "of an uneven one": lambda t, c: division_rules.quotient_of_an_uneven_remainder(t, c, "int32"),
    "any": lambda t, c: division_rules.quotient(t, c, "int32"),
}
REMAINDERS: dict[str, Rule] = {
    "of a multiple": division_rules.remainder_of_a_multiple,
    "of a quotient": division_rules.remainder_of_a_quotient,
    "of a remainder": lambda t, c: division_rules.remainder_of_a_remainder(t, c, "int32", FORMS),
    "of a small remainder": division_rules.remainder_of_a_small_remainder,
    "any": lambda t, c: division_rules.remainder(t, c, "int32", FORMS),
}


def applications(rule: Rule) -> Iterator[tuple[Term, int, Term]]:
    for term, c in itertools.product(TERMS, DIVISORS):
        result = rule(term, c)
        if result is not None:
            yield term, c, result


@pytest.mark.parametrize("name", QUOTIENTS)
def test_a_rule_for_quotients_keeps_every_value(name: str) -> None:
    count = 0
    for term, c, result in applications(QUOTIENTS[name]):
        assert np.array_equal(value(term) // c, value(result)), (term, c, result)
        assert result.upper == INF or result.upper % result.lower == 0
        count += 1
    assert count > 50


@pytest.mark.parametrize("name", REMAINDERS)
def test_a_rule_for_remainders_keeps_every_value(name: str) -> None:
    count = 0
    for term, c, result in applications(REMAINDERS[name]):
        assert np.array_equal(value(term) % c, value(result)), (term, c, result)
        assert result.upper == INF or result.upper % result.lower == 0
        count += 1
    assert count > 50


def _divided(term: Term, c: int) -> int:
    return max(1, term.lower * c // term.scale)


#: Rules with a condition left out: what the quotient, or the remainder, would be.
RECKLESS_QUOTIENTS: dict[str, Rule] = {
    "a multiple: c divides the scale": lambda t, c: t._replace(scale=t.scale // c),
    "a quotient: the scale divides c": lambda t, c: (
        t._replace(scale=1, lower=_divided(t, c))
        if t.scale > 0 and (t.upper == INF or t.upper % _divided(t, c) == 0)
        else None
    ),
    "a quotient: the scale is positive": lambda t, c: (
        t._replace(scale=-1, lower=t.lower * (c // -t.scale))
        if t.scale < 0 and c % t.scale == 0 and t.upper == INF
        else None
    ),
    "a small remainder: it is small": lambda t, c: (
        Term(ops.const(0)) if t.upper != INF and t.scale > 0 and c % t.scale == 0 else None
    ),
}
RECKLESS_REMAINDERS: dict[str, Rule] = {
    "a multiple: c divides the scale": lambda t, c: t._replace(scale=0),
    "a quotient: the scale divides c": lambda t, c: (
        t._replace(upper=_divided(t, c)) if t.scale > 0 and t.upper == INF else None
    ),
    "a quotient: the scale is positive": lambda t, c: (
        t._replace(upper=t.lower * (c // -t.scale))
        if t.scale < 0 and c % t.scale == 0 and t.upper == INF
        else None
    ),
    "a remainder: l * k divides u": lambda t, c: (
        t._replace(upper=_divided(t, c))
        if t.scale > 0 and c % t.scale == 0 and _divided(t, c) < t.upper != INF
        else None
    ),
    "a small remainder: u divides l * k": lambda t, c: (
        t if t.scale > 0 and c % t.scale == 0 and t.upper != INF else None
    ),
}


@pytest.mark.parametrize("name", RECKLESS_QUOTIENTS)
def test_a_condition_of_a_rule_for_quotients_is_needed(name: str) -> None:
    found = applications(RECKLESS_QUOTIENTS[name])
    assert any(not np.array_equal(value(t) // c, value(result)) for t, c, result in found)


@pytest.mark.parametrize("name", RECKLESS_REMAINDERS)
def test_a_condition_of_a_rule_for_remainders_is_needed(name: str) -> None:
    found = applications(RECKLESS_REMAINDERS[name])
    assert any(not np.array_equal(value(t) % c, value(result)) for t, c, result in found)


# -- sums ------------------------------------------------------------------------------------------

FEW = [t for t in TERMS if t.lower in (1, 2, 4) and t.scale in (-2, 1, 2, 4)]


def test_adding_scaling_and_joining_keep_every_value() -> None:
    joins = 0
    for a, b in itertools.product(FEW, FEW):
        both = add(Sum((a,), 3), Sum((b,), -5), -2)
        expected = value(a) + 3 - 2 * (value(b) - 5)
        assert np.array_equal(total(both.terms, both.base), expected), (a, b)
        assert all(t.scale for t in both.terms)
        thrice = scaled(both, -3)
        assert np.array_equal(total(thrice.terms, thrice.base), -3 * expected), (a, b)
        together = joined(add(Sum((a,)), Sum((b,))).terms)
        assert np.array_equal(total(together), value(a) + value(b)), (a, b)
        assert [t.scale for t in together] == sorted((t.scale for t in together), reverse=True)
        joins += len(together) < 2 and a[1:3] != b[1:3]
    assert joins > 20


def test_joining_three_terms_keeps_every_value() -> None:
    some = [t for t in FEW if t.upper in (INF, 2, 4, 8) and t.scale > 0]
    for terms in itertools.combinations(some, 3):
        form = add(add(Sum((terms[0],)), Sum((terms[1],))), Sum((terms[2],)))
        assert np.array_equal(total(joined(form.terms)), total(terms)), terms


@pytest.mark.parametrize("left", ["lower", "scale"])
def test_only_quotient_and_remainder_by_one_number_are_joined(left: str) -> None:
    def reckless(a: Term, b: Term) -> bool:
        """Whether (x // c) * s + (x % d) * t, made x * t, is another value."""
        fits = a.lower == b.upper if left == "scale" else a.scale == b.scale * a.lower
        fits = fits and a.upper == INF and b.lower == 1
        return fits and not np.array_equal(value(a) + value(b), value(b._replace(upper=INF)))

    assert any(reckless(a, b) for a, b in itertools.product(TERMS, TERMS))


def test_a_sum_as_one_term_and_as_an_expression_has_the_same_values() -> None:
    for a, b, base in itertools.product(FEW[::3], FEW[::5], (-1, 0, 2)):
        form = add(Sum((a,), base), Sum((b,)))
        expected = value(a) + value(b) + base
        assert np.array_equal(value(one_term(form, "int32")), expected), form
        assert np.array_equal(value(Term(sum_expr(form, "int32"))), expected), form


def test_a_term_over_a_constant_is_a_constant() -> None:
    for n, term in itertools.product(range(-7, 8), TERMS):
        constant = term._replace(atom=ops.const(n))
        assert sum_of(constant) == Sum((), int(value(constant)[0]))


def test_a_constant_that_its_type_cannot_hold_is_exact_as_an_expression() -> None:
    for n in (2**31 - 1, 2**31, 2**31 + 12345, -(2**31), -(2**31) - 1, 10**15 + 7, -(10**15)):
        assert int(Grid({X: POINTS}, wraps=False)(number(n, "int32"))) == n
        wrapped = Grid({X: POINTS}, wraps=True)(number(n, "int32"))
        assert int(wrapped) == (n + 2**31) % 2**32 - 2**31


# -- bounds ----------------------------------------------------------------------------------------

PYTHON: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "min": min,
    "max": max,
}
ENDS = (-INF, -4, -3, -1, 0, 1, 2, 5, INF)
INTERVALS = [
    (low, high)
    for low, high in itertools.combinations_with_replacement(ENDS, 2)
    if not low == high == INF and not low == high == -INF
]


def inside(bounds: tuple[float, float], far: int = 40) -> range:
    low, high = max(bounds[0], -far), min(bounds[1], far)
    return range(int(low), int(high) + 1)


@pytest.mark.parametrize("op", ["*", "//", "%", "min", "max"])
def test_bounds_of_an_operation_hold_every_value(op: str) -> None:
    steps = np.arange(-40, 41)
    a, b = np.meshgrid(steps, steps, indexing="ij")
    divisor = np.where(b == 0, 1, b) if op in ("//", "%") else b
    table = np.frompyfunc(PYTHON[op], 2, 1)(a, divisor).astype(np.int64)
    finite = 0
    for x, y in itertools.product(INTERVALS, INTERVALS):
        low, high = binary_bounds(op, x, y)
        rows = np.array(inside(x)) + 40
        columns = np.array([v for v in inside(y) if v or op not in ("//", "%")], int) + 40
        if not columns.size:
            continue
        values = table[np.ix_(rows, columns)]
        assert low <= values.min(), (op, x, y)
        assert values.max() <= high, (op, x, y)
        finite += low > -INF and high < INF
    assert finite > 100


def test_a_verdict_is_right_for_every_difference_in_the_bounds() -> None:
    tests = {"<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne}
    for op, (low, high) in itertools.product(tests, INTERVALS):
        truths = {tests[op](difference, 0) for difference in inside((low, high))}
        decided = decide_comparison(op, low, high)
        if decided is not None:
            assert truths == {decided}
        else:
            assert truths == {False, True}


# -- constants and neutral elements ----------------------------------------------------------------

NUMBERS = range(-7, 8)


def test_folding_constants_gives_what_python_gives() -> None:
    for (op, python), a, b in itertools.product(PYTHON.items(), NUMBERS, NUMBERS):
        folded = ops.fold(op, ops.const(a), ops.const(b))
        if op in ("//", "%") and b == 0:
            assert not isinstance(folded, Const)
        else:
            assert isinstance(folded, Const)
            assert folded.value == python(a, b)


def test_neutral_elements_vanish_and_every_value_stays() -> None:
    grid, shorter = Grid({X: POINTS}, wraps=False), 0
    for op, n in itertools.product(PYTHON, NUMBERS):
        for a, b in ((X, ops.const(n)), (ops.const(n), X), (X, X)):
            divides = op in ("//", "%")
            if divides and isinstance(b, Const) and n == 0:
                continue
            folded = ops.fold(op, a, b)
            keep = POINTS != 0 if divides and b is X else POINTS == POINTS
            x, y = (np.broadcast_to(grid(e), POINTS.shape)[keep].tolist() for e in (a, b))
            result = np.broadcast_to(grid(folded), POINTS.shape)[keep].tolist()
            assert result == [PYTHON[op](p, q) for p, q in zip(x, y, strict=True)], (op, a, b)
            shorter += folded is X or isinstance(folded, Const)
    assert shorter > 40


def test_logic_with_constants_and_with_itself_folds() -> None:
    p, true, false = X < 3, ops.const(True), ops.const(False)
    expected: list[tuple[Expr, Expr]] = [
        (ops.binary("and", p, true), p),
        (ops.binary("and", false, p), false),
        (ops.binary("or", p, false), p),
        (ops.binary("or", true, p), true),
        (ops.binary("and", p, p), p),
        (ops.binary("or", p, p), p),
        (ops.logical_not(ops.logical_not(p)), p),
        (ops.logical_not(true), false),
        (ops.select(p, X, X), X),
        (ops.select(true, X, X + 1), X),
        (ops.likely(true), true),
    ]
    for folded, short in expected:
        assert folded is short


# -- a quotient and its remainder ------------------------------------------------------------------

K, M, Y = Var("k"), Var("m"), Var("y")
DIVISOR_VALUES = np.array([d for d in range(-6, 7) if d])
GRID = dict(
    zip(
        (X, Y, K, M),
        np.meshgrid(POINTS, np.arange(-3, 4), DIVISOR_VALUES, (-2, 1, 3), indexing="ij"),
        strict=True,
    )
)
#: Sums that hold a quotient and its remainder, and which atoms are left: variables alone if the
#: two belong together.
SUMS: dict[str, tuple[Expr, bool]] = {
    "x // k * k + x % k": ((X // K) * K + X % K, True),
    "times 3, plus y": ((X // K) * K * 3 + Y + (X % K) * 3, True),
    "of a sum": (((X + Y) // K) * K + (X + Y) % K - Y, True),
    "of a product": ((X // (K * M)) * K * M + X % (K * M), True),
    "twice": (((X // K) // M) * M * K + ((X // K) % M) * K + X % K, True),
    "a constant divisor": ((X // 5) * 5 * M + (X % 5) * M, True),
    "backwards": (Y - (X // K) * K - X % K, True),
    "a sum as divisor": ((X // (K * K + 1)) * (K * K + 1) + X % (K * K + 1), True),
    "another divisor": ((X // K) * M + X % K, False),
    "another dividend": ((X // K) * K + Y % K, False),
    "another scale": ((X // K) * K * 2 + X % K, False),
    "the remainder alone": (X % K + Y, False),
    "more of the remainder": ((X // K) * K + (X % K) * 2, False),
}


@pytest.mark.parametrize("name", SUMS)
def test_a_quotient_joined_with_its_remainder_keeps_every_value(name: str) -> None:
    expr, whole = SUMS[name]
    poly = joined_poly(to_poly(expr))
    atoms = {atom for monomial in poly for atom in monomial}
    assert all(isinstance(atom, Var) for atom in atoms) is whole
    values = Grid(GRID, wraps=False)
    np.testing.assert_array_equal(values(expr) + 0 * GRID[X], values(to_expr(poly)) + 0 * GRID[X])
