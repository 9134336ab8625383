"""Turns loops marked VECTORIZED into vector loads, stores and arithmetic.

    for x in vectorized(16):                    C[i*16 + ramp(0, 1, 16)] =
        C[i*16 + x] = A[i*16 + x] * B[i]   ->       A[i*16 + ramp(0, 1, 16)] * broadcast(B[i])

A loop that cannot be turned (its extent is not constant, a guard, an inner extent or an
allocation depends on its iterations, an element is combined over them) becomes serial.
"""

from __future__ import annotations

import logging

from autotune.ir import dtypes
from autotune.ir.expr import (
    Binary,
    Broadcast,
    Buffer,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Not,
    Ramp,
    Select,
    Var,
)
from autotune.ir.ops import fold
from autotune.ir.stmt import Allocate, Evaluate, For, Function, If, LoopKind, Stmt, Store
from autotune.ir.visitor import Rewriter, stmt_exprs, substitute, walk, walk_expr

#: Longer loops are cut into vectors of the largest length that divides them, up to this many lanes.
MAX_LANES = 64


logger = logging.getLogger(__name__)


class _Refusal(Exception):
    """A loop that has to stay a loop, and why."""


def vectorize(function: Function) -> Function:
    """Return the function with every VECTORIZED loop made vectors, or serial where it cannot be.

    Loops that became serial are in the attribute "not_vectorized", as pairs of name and reason.
    """
    rewriter = _Vectorize()
    result = function.with_body(rewriter.stmt(function.body))
    return result.with_attrs(not_vectorized=tuple(rewriter.refused)) if rewriter.refused else result


class _Vectorize(Rewriter):
    """Finds the loops, inner ones first."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: list[tuple[str, str]] = []

    def visit_For(self, node: For) -> Stmt:
        loop = self.rebuild_stmt(node)
        if not isinstance(loop, For) or loop.kind is not LoopKind.VECTORIZED:
            return loop
        try:
            return _vectorized(loop)
        except _Refusal as refusal:
            logger.debug("loop %s is not vectorized: %s", loop.var.name, refusal)
            self.refused.append((loop.var.name, str(refusal)))
            return For(loop.var, loop.extent, LoopKind.SERIAL, loop.body)


def _vectorized(loop: For) -> Stmt:
    if not isinstance(loop.extent, Const):
        raise _Refusal(f"the extent of {loop.var.name} is not constant")
    extent = int(loop.extent.value)
    if extent == 1:
        return _Substituted(loop.var, Const(0, loop.var.dtype)).stmt(loop.body)
    lanes = max(n for n in range(1, min(extent, MAX_LANES) + 1) if extent % n == 0)
    if lanes == 1:
        raise _Refusal(f"{extent} iterations make no vectors of at most {MAX_LANES} lanes")
    _check_accesses(loop)
    if lanes == extent:
        return _Lanes(loop.var, Const(0, loop.var.dtype), lanes).stmt(loop.body)
    outer = Var(f"{loop.var.name}.outer", loop.var.dtype)
    start = fold("*", outer, Const(lanes, outer.dtype))
    body = _Lanes(loop.var, start, lanes).stmt(loop.body)
    return For(outer, Const(extent // lanes, outer.dtype), LoopKind.SERIAL, body)


def _check_accesses(loop: For) -> None:
    """Refuse a loop that may read or overwrite in one iteration what another one wrote.

    A buffer that the body writes must be addressed by one expression throughout, so that no lane
    sees another's element.
    """
    stored: dict[Buffer, Expr] = {}
    for stmt in walk(loop.body):
        if isinstance(stmt, Store) and stored.setdefault(stmt.buffer, stmt.index) is not stmt.index:
            raise _Refusal(f"{stmt.buffer.name} is written at several places")
    for stmt in walk(loop.body):
        for expr in stmt_exprs(stmt):
            for node in walk_expr(expr):
                if isinstance(node, Load) and stored.get(node.buffer, node.index) is not node.index:
                    raise _Refusal(f"{node.buffer.name} is read at other elements than written")


class _Substituted(Rewriter):
    """Replaces one variable by a constant throughout a statement."""

    def __init__(self, var: Var, value: Expr) -> None:
        super().__init__()
        self.mapping = {var: value}

    def expr(self, node: Expr) -> Expr:
        return substitute(node, self.mapping)


class _Lanes(Rewriter):
    """Rewrites a loop body for all iterations start, ..., start + lanes - 1 at once.

    `masked` says whether the statement stands under a guard that not every iteration passes.
    """

    def __init__(self, var: Var, start: Expr, lanes: int) -> None:
        super().__init__()
        self.var = var
        self.start = start
        self.lanes = lanes
        self.masked = False
        self.masked = False

    # -- statements --------------------------------------------------------------------------------

    def visit_Store(self, node: Store) -> Stmt:
        index, value = self.expr(node.index), self.expr(node.value)
        if index.lanes == 1:
            if value.lanes > 1:
                raise _Refusal(f"all iterations write one element of {node.buffer.name}")
            if self.masked:
                raise _Refusal(f"some iterations write one element of {node.buffer.name}")
            if self.masked:
                raise _Refusal(f"some iterations write one element of {node.buffer.name}")
            if any(isinstance(e, Load) and e.buffer is node.buffer for e in walk_expr(value)):
                raise _Refusal(f"an element of {node.buffer.name} is combined over iterations")
            return self.rebuild_stmt(node)
        if index.lanes != self.lanes:
            raise _Refusal("a vector inside a vector")
        return Store(node.buffer, index, self.wide(value))

    def visit_For(self, node: For) -> Stmt:
        if self.expr(node.extent).lanes > 1:
            raise _Refusal(f"the extent of {node.var.name} differs between iterations")
        if self.masked and node.kind is LoopKind.PARALLEL:
            raise _Refusal(f"the parallel loop {node.var.name} does not run in every iteration")
        return self.rebuild_stmt(node)

    def visit_If(self, node: If) -> Stmt:
        if self.expr(node.condition).lanes == 1:
            return self.rebuild_stmt(node)
        outer, self.masked = self.masked, True
        result = self.rebuild_stmt(node)
        self.masked = outer
        return result

    def visit_Allocate(self, node: Allocate) -> Stmt:
        raise _Refusal(f"every iteration has its own {node.buffer.name}")

    def visit_Evaluate(self, node: Evaluate) -> Stmt:
        raise _Refusal("a call for its effect is made in every iteration")

    # -- expressions -------------------------------------------------------------------------------

    def wide(self, node: Expr) -> Expr:
        """Return `node` over all lanes."""
        if node.lanes == self.lanes:
            return node
        if node.lanes != 1:
            raise _Refusal("a vector inside a vector")
        return Broadcast(node, self.lanes)

    def visit_Var(self, node: Var) -> Expr:
        if node is not self.var:
            return node
        return Ramp(self.start, Const(1, node.dtype), self.lanes)

    def visit_Binary(self, node: Binary) -> Expr:
        a, b = self.expr(node.a), self.expr(node.b)
        if a is node.a and b is node.b:
            return node
        if a.lanes == b.lanes == 1:
            return fold(node.op, a, b)
        if dtypes.is_index(a.dtype):
            affine = self.affine(node.op, a, b)
            if affine is not None:
                return affine
        return Binary(node.op, self.wide(a), self.wide(b))

    def affine(self, op: str, a: Expr, b: Expr) -> Expr | None:
        """Sum, difference or product as a ramp, where it is one."""
        if op in ("+", "-"):
            parts = _affine_parts(a), _affine_parts(b)
            if parts[0] is None or parts[1] is None:
                return None
            base = fold(op, parts[0][0], parts[1][0])
            stride = fold(op, parts[0][1], parts[1][1])
        elif op == "*" and isinstance(a, Ramp) and b.lanes == 1:
            base, stride = fold("*", a.base, b), fold("*", a.stride, b)
        elif op == "*" and isinstance(b, Ramp) and a.lanes == 1:
            base, stride = fold("*", a, b.base), fold("*", a, b.stride)
        else:
            return None
        if isinstance(stride, Const) and stride.value == 0:
            return base
        return Ramp(base, stride, self.lanes)

    def visit_Select(self, node: Select) -> Expr:
        condition, true, false = map(self.expr, node.children)
        if condition.lanes == true.lanes == false.lanes == 1:
            return node.with_children((condition, true, false))
        return Select(condition, self.wide(true), self.wide(false))

    def visit_Call(self, node: Call) -> Expr:
        args = tuple(self.expr(arg) for arg in node.children)
        if all(arg.lanes == 1 for arg in args):
            return node.with_children(args)
        if node.name == "if_then_else":
            return Call(node.name, (args[0], self.wide(args[1]), self.wide(args[2])), node.dtype)
        return Call(node.name, tuple(map(self.wide, args)), node.dtype)

    def visit_Cast(self, node: Cast) -> Expr:
        a = self.expr(node.a)
        whole = dtypes.is_index(node.dtype) and dtypes.is_index(a.dtype)
        if whole and isinstance(a, Ramp) and dtypes.bits(node.dtype) >= dtypes.bits(a.dtype):
            return Ramp(Cast(node.dtype, a.base), Cast(node.dtype, a.stride), a.lanes)
        return node.with_children((a,))

    def visit_Not(self, node: Not) -> Expr:
        return node.with_children((self.expr(node.a),))

    def visit_Ramp(self, node: Ramp) -> Expr:
        return self._invariant(node)

    def visit_Broadcast(self, node: Broadcast) -> Expr:
        return self._invariant(node)

    def _invariant(self, node: Expr) -> Expr:
        """Keep a vector of a loop further in; it may not depend on this loop's variable."""
        if any(child is not self.expr(child) for child in node.children):
            raise _Refusal("a vector inside a vector")
        return node


def _affine_parts(node: Expr) -> tuple[Expr, Expr] | None:
    """Return (base, stride) of a ramp or of a scalar, None of any other vector."""
    if isinstance(node, Ramp):
        return node.base, node.stride
    return (node, Const(0, node.dtype)) if node.lanes == 1 else None
