"""Simplifies digits: with 0 <= r < d, (q * d + r) // d is q, and (q * d + r) % d is r."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice, product

from autotune.ir.algebra.polynomials import Poly, add, multiply, split_multiple, to_expr, to_poly
from autotune.ir.expr import BinaryOp, Expr, Var
from autotune.ir.ops import fold
from autotune.ir.visitor import Rewriter, walk_expr

#: Largest number of upper bounds that are tried.
_MOST = 16


def without_digits(node: Expr, extents: Mapping[Var, Expr]) -> Expr:
    """Return an index with quotients and remainders replaced by the digits that they are.

    `extents`: lengths of the loops over variables, which begin at 0.
    """
    has_digits = any(isinstance(n, BinaryOp) and n.op in ("//", "%") for n in walk_expr(node))
    return _Digits(extents).expr(node) if has_digits else node


class _Digits(Rewriter):
    def __init__(self, extents: Mapping[Var, Expr]) -> None:
        super().__init__()
        self.extents = extents

    def visit_BinaryOp(self, node: BinaryOp) -> Expr:
        a, b = self.expr(node.a), self.expr(node.b)
        if node.op in ("//", "%"):
            divisor = to_poly(b)
            whole, rest = split_multiple(to_poly(a), divisor)
            if whole and any(_is_below(most, divisor) for most in self._most(rest)):
                return to_expr(whole if node.op == "//" else rest, node.dtype)
        return fold(node.op, a, b)

    def _most(self, poly: Poly) -> Iterator[Poly]:
        """Yield upper bounds of a sum of multiples of variables; none if a term is another one."""
        bounds: list[list[Poly]] = []
        for monomial, coefficient in poly.items():
            ranging = [atom for atom in monomial if atom in self.extents]
            if coefficient < 0 or len(ranging) > 1 or (monomial and not ranging):
                return
            others = tuple(atom for atom in monomial if atom not in self.extents)
            lengths: list[Poly] = [{(): 2}]  # a constant term is as large as it is
            if ranging:
                lengths = _lengths(self.extents[ranging[0]])  # type: ignore[index]
            one: Poly = {(): -1}
            bounds.append([multiply({others: coefficient}, add(n, one)) for n in lengths])
        for chosen in islice(product(*bounds), _MOST):
            total: Poly = {}
            for bound in chosen:
                total = add(total, bound)
            yield total


def _lengths(extent: Expr) -> list[Poly]:
    """Return an extent, or an upper bound of it if it is a minimum of two."""
    if isinstance(extent, BinaryOp) and extent.op == "min":
        return [*_lengths(extent.a), *_lengths(extent.b)]
    return [to_poly(extent)]


def _is_below(poly: Poly, divisor: Poly) -> bool:
    room = add(divisor, poly, -1)
    return set(room) == {()} and room[()] > 0
