"""Simplification of statements by the ranges of loop variables, and of the values they store."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.ir import dtypes
from autotune.ir.algebra.canonical_sums import INF, Sum, Term, sum_of
from autotune.ir.algebra.intervals import ANYTHING, Bounds, fits_type, type_bounds
from autotune.ir.algebra.simplify_expr import Canonical
from autotune.ir.algebra.sum_bounds import SumBounds
from autotune.ir.expr import BinaryOp, Buffer, Cast, Const, Expr, Load, Var
from autotune.ir.ops import cast, fold
from autotune.ir.stmt import NOTHING, Allocate, For, If, Stmt, Store, ThreadReduce, is_empty
from autotune.ir.visitor import Rewriter, walk_expr


class WrappingBounds(SumBounds):
    """Bounds values whose integers wrap: a variable has the range of its type."""

    def _bounds_of(self, node: Expr) -> Bounds:
        low, high = super()._bounds_of(node)
        if not isinstance(node, Var):
            return low, high
        least, most = type_bounds(node.dtype)
        return max(low, least), min(high, most)

    def _leaves_type(self, node: Expr) -> bool:
        if super()._leaves_type(node):
            return True
        return dtypes.is_integer(node.dtype) and not fits_type(self.bounds(node), node.dtype)


class Wrapping(Canonical):
    """Rewrites stored values canonically.

    Sums are canonical as in indices, because they are valid modulo any power of 2. The other rules
    are valid for integers that do not wrap: they apply only if the bounds show that no step before
    or after leaves its type. Values that leave it are wrapped by casts, so later rules may take all
    arithmetic as exact.

    `indices`: simplifies the indices of loads, where integers are exact, and has the ranges of
    variables.
    """

    def __init__(self, indices: Canonical) -> None:
        super().__init__(known=WrappingBounds(self.form, indices.known.ranges))
        self._indices = indices

    def _atom(self, node: Expr) -> Expr:
        if isinstance(node, Load):
            return self._indices.expr(node)
        if isinstance(node, Cast) and dtypes.is_index(node.dtype):
            return cast(node.dtype, self._in_type(node.a))
        return super()._atom(node)

    def _in_type(self, node: Expr) -> Expr:
        """Return an operand, wrapped by casts if it is known to leave its type.

        Sizes that are known only at a call are assumed to be small enough.
        """
        simple = self.expr(node)
        if not dtypes.is_index(node.dtype):
            return simple
        bounds = self._indices.known.bounds(simple)
        if -INF in bounds or INF in bounds or fits_type(bounds, node.dtype):
            return simple
        return cast(node.dtype, cast(f"u{node.dtype}", simple))

    def _opaque(self, node: BinaryOp) -> Sum:
        if node.op == "*":
            return super()._opaque(node)
        return sum_of(Term(fold(node.op, self._in_type(node.a), self._in_type(node.b))))

    def _division(self, node: BinaryOp) -> Sum:
        form = super()._division(node)
        return self._opaque(node) if self.known.may_wrap(self._to_expr(form, node.dtype)) else form

    def _comparison(self, node: BinaryOp) -> Expr:
        if not self.known.may_wrap(node):
            result = super()._comparison(node)
            if isinstance(result, Const) or not self.known.may_wrap(result):
                return result
        return fold(node.op, self._in_type(node.a), self._in_type(node.b))


class Simplifier(Rewriter):
    """Simplifies functions: every expression canonically, every `If` that can be decided.

    `ranges`, `otherwise`: as for `Canonical`; the ranges of loop variables are collected during the
    traversal. `has_digits`: likewise, of indices.
    `canonical`: simplifies expressions in place of `Canonical`, and also stored values.
    """

    def __init__(
        self,
        ranges: Mapping[Var, Bounds] | None = None,
        otherwise: Bounds = ANYTHING,
        canonical: Canonical | None = None,
        has_digits: bool = False,
    ) -> None:
        super().__init__()
        self._indices = canonical or Canonical(dict(ranges or {}), otherwise, None, has_digits)
        self._values = canonical or Wrapping(self._indices)
        self._held: list[Expr] = []
        #: Returns the canonical sum of an integer scalar expression.
        self.form = self._indices.form
        #: Return inclusive bounds of an integer expression, and of a sum.
        self.bounds, self.sum_bounds = self._indices.known.bounds, self._indices.known.sum_bounds
        #: Returns a stored value simplified, whose integers wrap to their types.
        self.value = self._values.expr

    def forget(self) -> None:
        """Clear results that were derived from the ranges known so far."""
        self._indices.forget()
        self._values.forget()

    def bind(self, var: Var, low: float, high: float) -> None:
        """Set the range of a variable that is now in scope."""
        known = self._indices.known.ranges.get(var)
        if known is not None and known != (low, high):
            self.forget()
        self._indices.known.ranges[var] = (low, high)

    def expr(self, node: Expr) -> Expr:
        """Return the simplified expression."""
        return self._indices.expr(node)

    def visit_For(self, node: For) -> Stmt:
        """Simplify the body with the range of the loop variable."""
        extent = self.expr(node.extent)
        self.bind(node.var, 0, max(0.0, self.bounds(extent)[1] - 1))
        body = self.stmt(node.body)
        if isinstance(extent, Const) and extent.value <= 0:
            return NOTHING
        return node.with_body(body, extent)

    def visit_If(self, node: If) -> Stmt:
        """Drop the condition if the ranges or the same enclosing condition decide it."""
        condition = self.expr(node.condition)
        if any(condition is held for held in self._held):
            return self.stmt(node.then)
        if isinstance(condition, Const):
            if condition.value:
                return self.stmt(node.then)
            return NOTHING if node.orelse is None else self.stmt(node.orelse)
        if not any(isinstance(part, Load) for part in walk_expr(condition)):
            self._held.append(condition)
            then = self.stmt(node.then)
            self._held.pop()
        else:
            then = self.stmt(node.then)
        orelse = None if node.orelse is None else self.stmt(node.orelse)
        if is_empty(then) and is_empty(orelse):
            return NOTHING
        return node.with_parts(condition, then, orelse)

    def visit_Allocate(self, node: Allocate) -> Stmt:
        """Simplify the extents; the buffer is then replaced by a new one."""
        shape = tuple(self.expr(extent) for extent in node.buffer.shape)
        buffer = node.buffer
        if any(new is not old for new, old in zip(shape, buffer.shape, strict=True)):
            buffer = Buffer(buffer.name, buffer.dtype, shape, buffer.scope)
            self._indices.buffers[node.buffer] = buffer
        body = self.stmt(node.body)
        same = buffer is node.buffer and body is node.body
        return node if same else Allocate(buffer, body)

    def visit_Store(self, node: Store) -> Stmt:
        """Simplify index and value."""
        buffer = self._indices.buffers.get(node.buffer, node.buffer)
        index, value = self.expr(node.index), self.value(node.value)
        same = buffer is node.buffer and index is node.index and value is node.value
        return node if same else Store(buffer, index, value)

    def visit_ThreadReduce(self, node: ThreadReduce) -> Stmt:
        """Simplify the operands; the thread axes stay, whatever their lengths."""
        values = tuple(map(self.value, node.operands))
        if all(new is old for new, old in zip(values, node.operands, strict=True)):
            return node
        return ThreadReduce(node.combiner, values, node.results, node.threads)
