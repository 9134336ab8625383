"""Rewrites the body of a loop for several of its iterations at once, one per lane of a vector."""

from __future__ import annotations

from autotune.ir import dtypes, ops
from autotune.ir.expr import (
    BinaryOp,
    Broadcast,
    Buffer,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Ramp,
    Select,
    Var,
    is_const,
)
from autotune.ir.ops import fold
from autotune.ir.stmt import Allocate, Barrier, For, If, LoopKind, Stmt, Store, WarpReduce
from autotune.ir.visitor import Rewriter, loads_in
from autotune.lowering.vector.lane_guards import uniform_condition


class VectorizeError(Exception):
    """A loop that cannot be vectorised, with the reason."""


def vectorize_iterations(body: Stmt, var: Var, start: Expr, lanes: int, suffix: str = "") -> Stmt:
    """Run the iterations var = start, ..., start + lanes - 1 of a loop over `body` at once.

    `lanes`: at least 2.
    `suffix`: suffix of the names of buffers that are private to each iteration.

    Raises Refusal if the iterations cannot run at once.
    """
    return _Lanes(var, start, lanes, suffix).stmt(body)


def first_two_lanes(index: Expr, var: Var) -> Expr:
    """Value of `index` in the first two iterations over `var`: a scalar where that never matters.

    Raises Refusal if it is a vector already.
    """
    return _Lanes(var, Const(0, var.dtype), 2, "", first_two=True).expr(index)


class _Lanes(Rewriter):
    """Rewrites statements and expressions.

    `masked` is true for statements under a guard that only some iterations pass; `own` maps a
    buffer that each iteration allocates to a buffer for all lanes. If the first two lanes represent
    a loop of any length, conditions that are equal for both may differ for others.
    """

    def __init__(
        self, var: Var, start: Expr, lanes: int, suffix: str, first_two: bool = False
    ) -> None:
        super().__init__()
        self.first_two = first_two
        self.var, self.start, self.lanes = var, start, lanes
        self.suffix = suffix
        self.masked = False
        self.lane = Var("lane", var.dtype)
        self.own: dict[Buffer, Buffer] = {}
        one = Const(1, var.dtype)
        self._memo[var] = Ramp(start, one, lanes)
        self._memo[self.lane] = Ramp(Const(0, var.dtype), one, lanes)

    # -- statements --------------------------------------------------------------------------------

    def visit_Store(self, node: Store) -> Stmt:
        buffer, index = self.place(node.buffer, node.index)
        value = self.expr(node.value)
        if index.lanes == 1:
            if value.lanes > 1:
                raise VectorizeError(f"all iterations write one element of {node.buffer.name}")
            if self.masked:
                raise VectorizeError(f"some iterations write one element of {node.buffer.name}")
            if any(load.buffer is node.buffer for load in loads_in(value)):
                raise VectorizeError(
                    f"an element of {node.buffer.name} is combined over iterations"
                )
            return self.rebuild_stmt(node)
        if index.lanes != self.lanes:
            raise VectorizeError("a vector inside a vector")
        return self._stored(buffer, index, value)

    def _stored(self, buffer: Buffer, index: Expr, value: Expr) -> Stmt:
        match value:
            case Call(name="if_then_else", children=(test, *values)) if test.lanes == 1:
                # A whole vector is loaded or nothing.
                return If(test, *(self._stored(buffer, index, each) for each in values))
        return Store(buffer, index, self.wide(value))

    def visit_For(self, node: For) -> Stmt:
        if self.expr(node.extent).lanes > 1:
            raise VectorizeError(f"the extent of {node.var.name} differs between iterations")
        if self.masked and node.kind is LoopKind.PARALLEL:
            raise VectorizeError(
                f"the parallel loop {node.var.name} does not run in every iteration"
            )
        return self.rebuild_stmt(node)

    def visit_If(self, node: If) -> Stmt:
        condition = self.asked(node.condition)
        if condition is not node.condition:
            node = If(condition, node.then, node.orelse)
        if self.expr(node.condition).lanes == 1:
            return self.rebuild_stmt(node)
        outer, self.masked = self.masked, True
        result = self.rebuild_stmt(node)
        self.masked = outer
        return result

    def visit_Allocate(self, node: Allocate) -> Stmt:
        """Give every lane its own adjacent elements."""
        old = node.buffer
        if any(self.expr(extent) is not extent for extent in old.shape):
            raise VectorizeError(f"the size of {old.name} differs between iterations")
        shape = (*old.shape, Const(self.lanes, self.lane.dtype))
        self.own[old] = Buffer(old.name + self.suffix, old.dtype, shape, old.scope)
        return Allocate(self.own[old], self.stmt(node.body))

    def visit_WarpReduce(self, node: WarpReduce) -> Stmt:
        raise VectorizeError("lanes of a vector do not wait for other threads")

    def visit_Barrier(self, node: Barrier) -> Stmt:
        raise VectorizeError("lanes of a vector do not wait for one another")

    # -- expressions -------------------------------------------------------------------------------

    def asked(self, condition: Expr) -> Expr:
        """Return a condition with its uniform comparisons evaluated for the first lane."""
        return uniform_condition(condition, self.var, self.start, self.lanes)

    def wide(self, node: Expr) -> Expr:
        """Return `node` over all lanes."""
        if node.lanes == self.lanes:
            return node
        if node.lanes != 1:
            raise VectorizeError("a vector inside a vector")
        return Broadcast(node, self.lanes)

    def place(self, buffer: Buffer, index: Expr) -> tuple[Buffer, Expr]:
        """Return the buffer and index at which all lanes find their elements."""
        own = self.own.get(buffer)
        if own is None:
            return buffer, self.expr(index)
        if index.lanes > 1:
            raise VectorizeError("a vector inside a vector")
        first = fold("*", index, Const(self.lanes, index.dtype))
        return own, self.expr(fold("+", first, ops.cast(index.dtype, self.lane)))

    def visit_Load(self, node: Load) -> Expr:
        buffer, index = self.place(node.buffer, node.index)
        return node if buffer is node.buffer and index is node.index else Load(buffer, index)

    def visit_BinaryOp(self, node: BinaryOp) -> Expr:
        a, b = self.expr(node.a), self.expr(node.b)
        if a is node.a and b is node.b:
            return node
        if a.lanes == b.lanes == 1:
            return fold(node.op, a, b)
        if dtypes.is_index(a.dtype):
            affine = self.affine(node.op, a, b)
            if affine is not None:
                return affine
        return BinaryOp(node.op, self.wide(a), self.wide(b))

    def affine(self, op: str, a: Expr, b: Expr) -> Expr | None:
        """Return a sum, difference or product as a ramp, if it is one."""
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
        if is_const(stride, 0):
            return base
        return Ramp(base, stride, self.lanes)

    def visit_Select(self, node: Select) -> Expr:
        condition, true, false = map(self.expr, node.children)
        if condition.lanes == true.lanes == false.lanes == 1:
            return node.with_children((condition, true, false))
        return Select(condition, self.wide(true), self.wide(false))

    def visit_Call(self, node: Call) -> Expr:
        args = node.children
        if node.name == "if_then_else" and not self.first_two:
            args = (self.asked(args[0]), *args[1:])
        args = tuple(map(self.expr, args))
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

    def visit_Ramp(self, node: Ramp | Broadcast) -> Expr:
        """Keep a vector of an inner loop; it must not depend on this loop's variable."""
        if any(child is not self.expr(child) for child in node.children):
            raise VectorizeError("a vector inside a vector")
        return node

    visit_Broadcast = visit_Ramp


def _affine_parts(node: Expr) -> tuple[Expr, Expr] | None:
    """Return (base, stride) of a ramp or of a scalar; None for any other vector."""
    if isinstance(node, Ramp):
        return node.base, node.stride
    return (node, Const(0, node.dtype)) if node.lanes == 1 else None
