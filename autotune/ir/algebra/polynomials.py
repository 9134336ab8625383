"""Polynomials with integer coefficients over atoms: the normal form of bound inference.

Extents of symbolic tiles are products of knobs, and `xo*f + f - xo*f` must simplify to `f`. An atom
is any expression that is not a sum or a product.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Hashable, Mapping, Set
from typing import Any, TypeVar

from autotune.ir import dtypes
from autotune.ir.expr import BinaryOp, Const, Expr, Var
from autotune.ir.ops import const, fold
from autotune.ir.printer import excerpt, expr_text
from autotune.ir.visitor import Rewriter, free_vars, walk_expr

Monomial = tuple[Expr, ...]
Poly = dict[Monomial, int]
_Order = tuple[bool, list[int], str, str, int]
_Term = TypeVar("_Term", bound=Hashable)
_Products = dict[tuple[_Term, ...], int]


def to_poly(node: Expr) -> Poly:
    """Return the polynomial of an integer expression; zero terms are dropped."""
    if isinstance(node, Const):
        return {(): int(node.value)} if node.value else {}
    if isinstance(node, BinaryOp) and node.op in ("+", "-", "*"):
        a, b = to_poly(node.a), to_poly(node.b)
        return multiply(a, b) if node.op == "*" else add(a, b, 1 if node.op == "+" else -1)
    children = tuple(normal(c) if dtypes.is_index(c.dtype) else c for c in node.children)
    if isinstance(node, BinaryOp):
        rebuilt = fold(node.op, *children)
        if rebuilt is not node and not _is_atom(rebuilt):
            return to_poly(rebuilt)
        return {(rebuilt,): 1}
    return {(node.with_children(children),): 1}


def _is_atom(node: Expr) -> bool:
    return not isinstance(node, Const) and not (
        isinstance(node, BinaryOp) and node.op in ("+", "-", "*")
    )


def add(a: Mapping[_Term, int], b: Mapping[_Term, int], factor: int = 1) -> dict[_Term, int]:
    """Return a + factor * b, polynomials or any other sums of terms with coefficients."""
    total = dict(a)
    add_to(total, b, factor)
    return total


def add_to(total: dict[_Term, int], b: Mapping[_Term, int], factor: int = 1) -> None:
    """Add factor * b to a sum of terms with coefficients."""
    for monomial, coefficient in b.items():
        value = total.get(monomial, 0) + factor * coefficient
        if value:
            total[monomial] = value
        else:
            total.pop(monomial, None)


@functools.lru_cache(maxsize=1 << 13)
def _order(node: Expr) -> _Order:
    """Order of atoms, the same in each process: variables by age, then the others by theirs."""
    if isinstance(node, Var):
        return False, [node.id], "", "", 0
    # Only atoms of variables with the same names in exchanged places have one digest.
    ages = [var.id for var in free_vars(node)]
    return True, ages, excerpt(node), _digest(node), id(node)


def multiply(a: _Products[_Term], b: _Products[_Term], key: Any = _order) -> _Products[_Term]:
    """Return a * b; the factors of a product are sorted by a key."""
    product: _Products[_Term] = {}
    for m, c in a.items():
        for n, d in b.items():
            factors = tuple(sorted((*m, *n), key=key))
            value = product.get(factors, 0) + c * d
            if value:
                product[factors] = value
            else:
                product.pop(factors, None)
    return product


@functools.lru_cache(maxsize=1 << 16)
def _digest(node: Expr) -> str:
    """Digest of an expression's text, which may be exponentially longer than the expression."""
    parts = [expr_text(node, depth=1), *map(_digest, node.children)]
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=16).hexdigest()


def to_expr(poly: Poly, dtype: str = dtypes.INDEX) -> Expr:
    """Return the expression of a polynomial, positive terms first, the constant last."""
    total: Expr | None = None
    ordered = sorted(poly.items(), key=lambda item: (item[1] < 0, item[0] == ()))
    for monomial, coefficient in ordered:
        term: Expr = const(abs(coefficient), dtype)
        for position, atom in enumerate(monomial):
            term = atom if position == 0 and abs(coefficient) == 1 else fold("*", term, atom)
        if total is None:
            total = term if coefficient > 0 else fold("-", const(0, dtype), term)
        else:
            total = fold("+" if coefficient > 0 else "-", total, term)
    return const(0, dtype) if total is None else total


@functools.lru_cache(maxsize=1 << 13)  # nested divisions and minima normalise their parts again
def normal(node: Expr) -> Expr:
    """Return an integer expression in polynomial normal form."""
    return to_expr(to_poly(node), node.dtype)


def rejoined(node: Expr, ranging: Set[Var]) -> Expr:
    """Return an index in normal form, with d * (e // d) + e % d written as e.

    This undoes the fusing of loops if one of the variables in `ranging` occurs in the index. Other
    indices are not changed, because with symbolic knobs they would not be changed either.
    """

    def which(remainder: BinaryOp) -> bool:
        return isinstance(remainder.b, Const) and not ranging.isdisjoint(free_vars(remainder))

    if not any(isinstance(n, BinaryOp) and n.op == "%" and which(n) for n in walk_expr(node)):
        return normal(node)
    return _Rejoin(which).expr(node)


class _Rejoin(Rewriter):
    """Writes d * (e // d) + e % d as e, also inside of a dividend."""

    def __init__(self, which: Callable[[BinaryOp], bool]) -> None:
        super().__init__()
        self._which = which

    def visit_BinaryOp(self, node: BinaryOp) -> Expr:
        if not dtypes.is_index(node.dtype):
            return node
        rebuilt = fold(node.op, self.expr(node.a), self.expr(node.b))
        poly = to_poly(rebuilt)
        found = joined(poly, self._which)
        return to_expr(found, node.dtype)


def joined(poly: Poly, which: Callable[[BinaryOp], bool] = lambda remainder: True) -> Poly:
    """Return a polynomial with d * (e // d) + e % d written as e, which holds for every d but 0.

    `which`: which remainders e % d are to be joined with their quotients; by default all.
    """
    while True:
        found = next(filter(None, (_joined(poly, *term, which) for term in poly.items())), None)
        if found is None:
            return poly
        poly = found


def _joined(
    poly: Poly, monomial: Monomial, coefficient: int, which: Callable[[BinaryOp], bool]
) -> Poly | None:
    """Return the polynomial with one remainder and its quotient joined, if both occur."""
    for place, atom in enumerate(monomial):
        if not (isinstance(atom, BinaryOp) and atom.op == "%" and which(atom)):
            continue
        rest, whole = (*monomial[:place], *monomial[place + 1 :]), fold("//", atom.a, atom.b)
        digit = multiply({rest: coefficient}, multiply(to_poly(atom.b), to_poly(whole)))
        if digit and digit.items() <= poly.items():
            left = add(add(poly, digit, -1), {monomial: -coefficient})
            return add(left, multiply({rest: coefficient}, to_poly(atom.a)))
    return None


def split_multiple(poly: Poly, divisor: Poly) -> tuple[Poly, Poly]:
    """Return quotient q and rest r with poly = q * divisor + r, for a divisor of one term.

    A term of `poly` that the divisor divides goes to the quotient; the others are the rest.
    """
    if len(divisor) != 1:
        return {}, poly
    ((atoms, scale),) = divisor.items()
    quotient: Poly = {}
    rest: Poly = {}
    for monomial, coefficient in poly.items():
        left = _without(monomial, atoms)
        if left is None or coefficient % scale:
            rest[monomial] = coefficient
        else:
            quotient[left] = coefficient // scale
    return quotient, rest


def _without(monomial: Monomial, atoms: Monomial) -> Monomial | None:
    """Return a monomial divided by another one; None if it lacks an atom."""
    left = list(monomial)
    for atom in atoms:
        place = next((i for i, own in enumerate(left) if own is atom), None)
        if place is None:
            return None
        del left[place]
    return tuple(left)


def exact_quotient(node: Expr, divisor: Expr) -> Expr | None:
    """Return node / divisor if polynomials prove that the division is exact for all knob values."""
    if divisor is node:
        return const(1, node.dtype)
    by = to_poly(divisor)
    leading = max(by, key=_degree)
    quotient: Poly = {}
    rest = to_poly(node)
    while rest:
        monomial = max(rest, key=_degree)
        left = _without(monomial, leading)
        if left is None or rest[monomial] % by[leading]:
            return None
        term: Poly = {left: rest[monomial] // by[leading]}
        quotient = add(quotient, term)
        rest = add(rest, multiply(term, by), -1)
    return to_expr(quotient, node.dtype)


def _degree(monomial: Monomial) -> tuple[int, list[_Order]]:
    """Order monomials by degree, then by their atoms; products keep this order."""
    return len(monomial), sorted(map(_order, monomial), reverse=True)
