"""The form of a schedule's loops that AutoTVM v0.8 reads features from.

It differs from what is compiled: accumulators are not set first, tensors of one name share it,
nothing is computed ahead, and the text is simplified as TVM v0.8 does it, no more and no less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from autotune.ir import dtypes
from autotune.ir.algebra.canonical_sums import Sum, Term, sum_expr
from autotune.ir.algebra.intervals import ANYTHING, Bounds, binary_bounds
from autotune.ir.algebra.simplify_expr import Canonical
from autotune.ir.algebra.simplify_stmt import Simplifier
from autotune.ir.algebra.sum_bounds import SumBounds
from autotune.ir.expr import COMPARISON, BinaryOp, Buffer, Call, Const, Expr, Load, Not, Select
from autotune.ir.ops import const, fold
from autotune.ir.stmt import For, If, PrimFunc, Seq, Stmt, Store
from autotune.ir.visitor import recursive
from autotune.lowering.nest.lower_schedule import lower_schedule
from autotune.schedule.schedule import Schedule
from autotune.te.tensor import Tensor

_MIRRORED = {">": "<", ">=": "<="}


@recursive
def autotvm08_loops(schedule: Schedule, tensors: Sequence[Tensor]) -> PrimFunc:
    """Return the loops of a concrete schedule as AutoTVM v0.8 sees them; they compute nothing.

    `schedule`: without knobs.
    `tensors`: parameters of the function: inputs, then outputs.
    """
    function = lower_schedule(schedule, tensors, for_autotvm08=True)
    return function.with_body(AutoTVM08().stmt(function.body))


class _OnePass(Canonical):
    """Writes sums as one pass of TVM v0.8's canonical simplifier does.

    A sum that remains after a division around it is simplified away stays one term: if it is
    multiplied, its terms keep their own factors.
    """

    def _remainder(self, dividend: Sum, c: int, dtype: str) -> Sum:
        extra = self._parts(dividend, c)[1]
        several = len(extra.terms) + (extra.base != 0) > 1
        if several and self._is_remainder(extra, c):
            return Sum((Term(sum_expr(extra, dtype)),))
        return super()._remainder(dividend, c, dtype)

    def _to_expr(self, form: Sum, dtype: str) -> Expr:
        return sum_expr(form, dtype)


class _FactBounds(SumBounds):
    """Bounds expressions, also by the facts of `facts`."""

    def __init__(self, form: Callable[[Expr], Sum]) -> None:
        super().__init__(form, {})
        self.facts: dict[Expr, Bounds] = {}

    def may_wrap(self, node: Expr) -> bool:
        """Whether integers may leave their type: TVM takes it that they do not."""
        return False

    def bounds(self, node: Expr) -> Bounds:
        """Return inclusive bounds of an integer expression, by facts too."""
        found = super().bounds(node)
        fact = self.facts.get(node)
        return found if fact is None else _both(found, fact)

    def sum_bounds(self, form: Sum) -> Bounds:
        """Return inclusive bounds of a sum: facts may be about the first few of its terms."""
        if not self.facts:
            return super().sum_bounds(form)
        dtype = form.terms[0].atom.dtype if form.terms else dtypes.INDEX
        return self._text_bounds(sum_expr(form, dtype))

    def _text_bounds(self, node: Expr) -> Bounds:
        if not (isinstance(node, BinaryOp) and node.op in ("+", "-", "*")):
            return self.bounds(node)
        found = binary_bounds(node.op, self._text_bounds(node.a), self._text_bounds(node.b))
        fact = self.facts.get(node)
        return found if fact is None else _both(found, fact)


class _FactsInText(_OnePass):
    """Simplifies expressions where conditions are facts."""

    def __init__(self) -> None:
        self._facts = facts = _FactBounds(self.form)
        super().__init__(known=facts)
        self._flattened = _OnePass()

    @contextmanager
    def knowing(self, condition: Expr, holds: bool) -> Iterator[None]:
        """Take a condition's truth as a fact for a while."""
        found = dict(_bounded(condition, holds))
        if not found:
            yield
            return
        before = self._facts.facts
        self._facts.facts = dict(before)
        for expr, bounds in found.items():
            self._facts.facts[expr] = _both(bounds, before.get(expr, ANYTHING))
        self.forget()
        yield
        self._facts.facts = before
        self.forget()

    def _atom(self, node: Expr) -> Expr:
        if isinstance(node, Load):
            buffer = self.buffers.get(node.buffer, node.buffer)
            return Load(buffer, self.index(buffer, node.index))
        return super()._atom(node)

    def index(self, buffer: Buffer, index: Expr) -> Expr:
        """Return a flat index: of several dimensions it was simplified before ranges were known."""
        return self.expr(self._flattened.expr(index) if len(buffer.shape) > 1 else index)

    def _choice(self, node: Expr) -> Expr:
        """Take the side that counts, or each side under its condition."""
        test, true, false = node.children
        decided = self.expr(test)
        if isinstance(decided, Const):
            return self.expr(true if decided.value else false)
        with self.knowing(decided, holds=True):
            yes = self.expr(true)
        with self.knowing(decided, holds=False):
            no = self.expr(false)
        if yes is no and isinstance(node, Select):
            return yes
        return node.with_children((decided, yes, no))

    def _expr(self, node: Expr) -> Expr:
        if isinstance(node, BinaryOp) and dtypes.is_float(node.a.dtype):
            return simplified_floats(node.op, self.expr(node.a), self.expr(node.b))
        return super()._expr(node)


class AutoTVM08(Simplifier):
    """Simplifies as TVM v0.8's pass over flattened loops: every loop stays.

    Conditions are facts for the statements under them: an expression that a condition bounds by a
    constant has that bound, wherever it stands just so in the text. Integers are taken not to wrap.
    """

    def __init__(self) -> None:
        self._text = text = _FactsInText()
        super().__init__(canonical=text)

    def visit_For(self, node: For) -> Stmt:
        """Keep the loop, also one of length 0, whose variable stays."""
        extent = self.expr(node.extent)
        self.bind(node.var, 0, self.bounds(extent)[1] - 1)
        return node.with_body(self.stmt(node.body), extent)

    def visit_If(self, node: If) -> Stmt:
        """Take a branch that is decided; else the condition is a fact in the first one."""
        condition = self.expr(node.condition)
        if isinstance(condition, Const):
            chosen = node.then if condition.value else node.orelse
            return Seq(()) if chosen is None else self.stmt(chosen)
        with self._text.knowing(condition, holds=True):
            then = self.stmt(node.then)
        orelse = None
        if node.orelse is not None:
            with self._text.knowing(condition, holds=False):
                orelse = self.stmt(node.orelse)
        return If(condition, then, orelse)

    def visit_Store(self, node: Store) -> Stmt:
        """Simplify value and index."""
        buffer = self._text.buffers.get(node.buffer, node.buffer)
        return Store(buffer, self._text.index(buffer, node.index), self.expr(node.value))


def simplified_floats(op: str, a: Expr, b: Expr) -> Expr:
    """Return an operation on floats as TVM v0.8 writes it."""
    if op in COMPARISON:
        return fold(_MIRRORED[op], b, a) if op in _MIRRORED else fold(op, a, b)
    x = a.value if isinstance(a, Const) else None
    y = b.value if isinstance(b, Const) else None
    if op in ("+", "-") and y == 0:
        return a
    if op == "+" and x == 0:
        return b
    if op in ("*", "/") and (y == 1 or x == 0):
        return a
    if op == "*" and (x == 1 or y == 0):
        return b
    if op == "/" and y is not None and x is None:
        return fold("*", a, const(1 / y, b.dtype))
    both = isinstance(a, Select) and isinstance(b, Select) and a.condition is b.condition
    if both and op in ("+", "-", "min", "max"):
        assert isinstance(a, Select)
        assert isinstance(b, Select)
        true, false = (
            simplified_floats(op, p, q) for p, q in ((a.true, b.true), (a.false, b.false))
        )
        return Select(a.condition, true, false)
    if op == "-" and isinstance(a, Select) and b is a.false:
        return Select(a.condition, simplified_floats(op, a.true, b), const(0.0, b.dtype))
    if op == "-" and isinstance(a, Select) and b is a.true:
        return Select(a.condition, const(0.0, b.dtype), simplified_floats(op, a.false, b))
    return fold(op, a, b)


def _bounded(condition: Expr, holds: bool) -> Iterator[tuple[Expr, Bounds]]:
    """Yield the expressions that a condition bounds by constants if it holds, or if it fails."""
    match condition:
        case Call(name="likely"):
            yield from _bounded(condition.children[0], holds)
        case Not():
            yield from _bounded(condition.a, not holds)
        case BinaryOp(op="and") if holds:
            yield from _bounded(condition.a, holds)
            yield from _bounded(condition.b, holds)
        case BinaryOp(op="<" | "<=", a=a, b=b) if dtypes.is_index(a.dtype):
            strict = (condition.op == "<") == holds
            low, high = (a, b) if holds else (b, a)
            if isinstance(high, Const):
                yield low, (ANYTHING[0], high.value - strict)
            elif isinstance(low, Const):
                yield high, (low.value + strict, ANYTHING[1])


def _both(a: Bounds, b: Bounds) -> Bounds:
    return max(a[0], b[0]), min(a[1], b[1])
