"""Removes minima and maxima from indices where loops and guards decide them."""

from __future__ import annotations

from autotune.ir.algebra.simplify_stmt import Simplifier
from autotune.ir.expr import BinaryOp, Expr, Load
from autotune.ir.stmt import PrimFunc, Stmt, Store
from autotune.ir.visitor import Substitution, walk, walk_expr
from autotune.lowering.guards.facts import extremum, is_exact
from autotune.lowering.guards.prove_guards import Prover


def drop_redundant_clamps(function: PrimFunc) -> PrimFunc:
    """Return the function with simpler indices.

    ::

        for i in 9:                              for i in 9:
          unrolled r in 4:                         unrolled r in 4:
            S[r] = A[min(i*4 + r, 36)*n]    ->       S[r] = A[i*4*n + r*n]

    Rows at constant distances need one address, and compilers see which elements several rows read.
    A bound also hides that all rows of a tile are of one group, so that quotients are simplified:
    `min(i*4 + r, 36) // 20` becomes `i // 5`.
    """
    bounded = {s for s in walk(function.body) if isinstance(s, Store) and _has_clamps(s)}
    if not bounded:
        return function

    def simplified(node: Store) -> Stmt:
        if node not in bounded:
            return node
        indices = _Indices(prover)
        return Store(node.buffer, indices.index(node.index), indices.expr(node.value))

    prover = Prover(is_settled=lambda loop: bounded.isdisjoint(walk(loop)), store=simplified)
    prover.simplifier = Simplifier(has_digits=True)
    return function.with_body(prover.stmt(function.body))


def _has_clamps(store: Store) -> bool:
    return any(_is_clamp(node) for expr in (store.index, store.value) for node in walk_expr(expr))


def _is_clamp(node: Expr) -> bool:
    return isinstance(node, BinaryOp) and node.op in ("min", "max") and is_exact(node)


class _Indices(Substitution):
    """Rewrites indices by the facts of a prover."""

    def __init__(self, prover: Prover) -> None:
        super().__init__({})
        self._prover = prover
        self._bounds = _WithoutClamps(prover)

    def index(self, node: Expr) -> Expr:
        """Return a simpler index; the same if it has no redundant bound."""
        simple = self._bounds.expr(node)
        return node if simple is node else self._prover.simplifier.expr(simple)

    def visit_Load(self, node: Load) -> Expr:
        """Simplify the index of a load."""
        index = self.index(node.index)
        return node if index is node.index else Load(node.buffer, index)


class _WithoutClamps(Substitution):
    """Removes the redundant bounds of an expression."""

    def __init__(self, prover: Prover) -> None:
        super().__init__({})
        self._prover = prover

    def visit_BinaryOp(self, node: BinaryOp) -> Expr:
        """Keep the operands of a minimum or maximum that may be the least or greatest."""
        simple = extremum(node, self._prover.at_most_zero) if _is_clamp(node) else node
        return self.rebuild(node) if simple is node else simple
