"""Recognises scans whose steps combine associatively, and writes them step by step or in blocks.

These are y[t] = y[t - 1] op x[t] for a sum, product, maximum or minimum, and linear recurrences
y[t] = a[t] * y[t - 1] + x[t], each in independent columns. In blocks of steps, the effect of a
block on the value before it is one or two numbers. A scan over the blocks computes the value before
each block, and each block computes its steps from that value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from autotune import te
from autotune.ir import dtypes
from autotune.ir.expr import BinaryOp, Expr, Read
from autotune.ir.ops import binary, const, negate
from autotune.ir.visitor import mentions, reads, substitute
from autotune.rules.stage_graph import extent
from autotune.te.scan import ScanOp
from autotune.te.tensor import ComputeOp

#: An expression of a step and the indices of a column.
Element = Callable[..., Any]

#: The reductions that are associative combinations.
_REDUCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "+": te.sum,
    "*": te.prod,
    "max": te.max,
    "min": te.min,
}


@dataclass(frozen=True)
class Recurrence:
    """A recurrence in independent columns."""

    steps: int
    #: Shape of a step.
    columns: tuple[int, ...]
    dtype: str
    #: What combines the value before with x[t]: "+", "*", "max" or "min".
    op: str
    #: x[t] of a column; at step 0 it is the first value.
    value: Element
    #: a[t] of a column in a linear recurrence, in which `op` is "+"; None for 1.
    weight: Element | None = None

    @property
    def neutral(self) -> Any:
        """The neutral element of the combination."""
        return const(dtypes.identity(self.op, self.dtype), self.dtype)

    def reduce(self, value: Any, axis: Any) -> Any:
        """Combine values over an axis."""
        own = {"dtype": self.dtype} if self.op in ("+", "*") else {}
        return _REDUCTIONS[self.op](value, axis=axis, **own)

    def combine(self, x: Any, y: Any) -> Any:
        """Combine two values."""
        return binary(self.op, x, y)

    def after(self, effect: Sequence[Any], before: Any) -> Any:
        """Return a value after some steps.

        `effect`: their result for a neutral start, and with weights the product of these.
        """
        # The effect comes first: what is loaded can then be shifted to be what is before it.
        return self.combine(effect[0], before if self.weight is None else effect[1] * before)

    def both(self, first: Sequence[Any], second: Sequence[Any]) -> Any:
        """Return the effect of some steps and of those that follow."""
        result = self.after(second, first[0])
        return result if self.weight is None else (result, second[1] * first[1])

    def by_steps(self) -> Any:
        """Return the scan over all steps."""
        shape = (self.steps, *self.columns)
        state = te.placeholder(shape, self.dtype, name="state")

        def later(t: Any, *i: Any) -> Any:
            before = state[(t - 1, *i)]
            before = before if self.weight is None else before * self.weight(t, *i)
            return self.combine(before, self.value(t, *i))

        init = te.compute((1, *self.columns), lambda _, *i: self.value(0, *i), name="first")
        update = te.compute(shape, later, name="later")
        return te.scan(init, update, state, name="steps")

    def by_blocks(self, length: Any, carried: Callable[[Recurrence], Any] | None = None) -> Blocks:
        """Return the three phases for blocks of `length` steps, the last one maybe shorter.

        `carried` computes the values before blocks; by default a scan does.
        """
        count = te.ceildiv(self.steps, length)
        ends, factors = self._ends(count, length)
        if carried is None:
            carry = self.before_blocks(ends, factors)
        else:
            carry = carried(self.before(count, ends, factors))

        def step(value: Any, b: Any, t: Any, i: Any) -> Any:
            own = value if self.weight is None else value * self._weight_in(length, b, t, i)
            return self.combine(own, self._value_in(length, b, t, i))

        inside = (length, count, *self.columns)
        state = te.placeholder(inside, self.dtype, name="inside")
        first = te.compute(
            (1, *inside[1:]), lambda _, b, *i: step(carry[(b, *i)], b, 0, i), name="first"
        )
        later = te.compute(
            inside, lambda t, b, *i: step(state[(t - 1, b, *i)], b, t, i), name="later"
        )
        parts = te.scan(first, later, state, name="parts")
        return Blocks(length, ends, carry, parts)

    def before(self, count: Any, ends: Any, factors: Any = None) -> Recurrence:
        """Return what is before each of some blocks as a recurrence over their ends."""

        def earlier(values: Any, neutral: Any, b: Any, i: Any) -> Any:
            return te.if_then_else(b > 0, values[(te.max(b - 1, 0), *i)], neutral)

        def weight(b: Any, *i: Any) -> Any:
            return earlier(factors, const(1, self.dtype), b, i)

        return Recurrence(
            count, self.columns, self.dtype, self.op,
            lambda b, *i: earlier(ends, self.neutral, b, i),
            None if factors is None else weight,
        )  # fmt: skip

    def before_blocks(self, ends: Any, factors: Any = None) -> Any:
        """Return the value before each block, a scan over the results of blocks."""
        before = te.placeholder(ends.shape, self.dtype, name="before")

        def carried(b: Any, *i: Any) -> Any:
            own = before[(b - 1, *i)]
            own = own if factors is None else own * factors[(b - 1, *i)]
            return self.combine(own, ends[(b - 1, *i)])

        none = te.compute((1, *self.columns), lambda _, *i: self.neutral, name="none")
        more = te.compute(ends.shape, carried, name="more")
        return te.scan(none, more, before, name="carry")

    def _ends(self, count: Any, length: Any) -> tuple[Any, Any]:
        """Return the result of each block for a neutral start, and its factor (None for 1)."""
        shape = (count, *self.columns)
        k = te.reduce_axis((0, length), name="k")
        if self.weight is None:

            def total(b: Any, *i: Any) -> Any:
                return self.reduce(self._value_in(length, b, k, i), k)

            return te.compute(shape, total, name="ends"), None
        # Not commutative, but no schedule here changes the order of steps.
        after = te.comm_reducer(
            lambda x, y: (x[0] * y[0], x[1] * y[0] + y[1]),
            lambda factor, end: (const(1, factor), const(0, end)),
            name="after",
        )

        def pair(b: Any, *i: Any) -> Any:
            own = self._weight_in(length, b, k, i), self._value_in(length, b, k, i)
            return after(own, axis=k)

        factors, ends = te.compute(shape, pair, name="ends")
        return ends, factors

    def _value_in(self, length: Any, b: Any, t: Any, i: Any) -> Any:
        """Return x[t] of a block; the neutral element where it has no such step."""
        at = b * length + t
        return te.if_then_else(at < self.steps, self.value(at, *i), self.neutral)

    def _weight_in(self, length: Any, b: Any, t: Any, i: Any) -> Any:
        """Return a[t] of a block; 1 where it has no such step, and at the first step of all."""
        assert self.weight is not None
        at, one = b * length + t, const(1, self.dtype)
        return te.if_then_else(te.all(at < self.steps, at > 0), self.weight(at, *i), one)


@dataclass(frozen=True)
class Blocks:
    """The phases: the ends of blocks, the values before them, the steps inside each."""

    length: Any
    ends: Any
    carry: Any
    parts: Any

    def element(self, t: Any, *i: Any) -> Any:
        """Return the value of a column at a step."""
        return self.parts[(t % self.length, t // self.length, *i)]


def recurrence_of(op: ScanOp) -> Recurrence | None:
    """Return what a scan of one state computes; None if it is no such recurrence."""
    update = op.update[0].op
    if len(op.cell) != 1 or len(op.update) != 1 or op.first != 1:
        return None
    if len(op.apart) != len(update.axis) - 1 or update.reduce_axis:
        return None
    assert isinstance(update, ComputeOp)
    (body,) = update.body
    states = [r for r in reads(body) if r.tensor is op.state_placeholder[0]]
    found = _associative(body, states[0]) if len(set(states)) == 1 else None
    if found is None:
        return None
    kind, weight, value = found
    time, *columns = update.axis
    (init,) = (t.op for t in op.init)
    assert isinstance(init, ComputeOp)
    if init.reduce_axis:
        return None
    start = init.body[0]
    first, *others = (axis.var for axis in init.axis)
    own = {old: new.var for old, new in zip(others, columns, strict=True)}
    at_start = substitute(start, {first: const(0), **own})
    is_value = substitute(value, {time.var: const(0)}) is at_start

    def at(expr: Expr, t: Any, i: Any) -> Any:
        values = {a.var: x for a, x in zip(columns, i, strict=True)}
        return substitute(expr, {time.var: const(t) if isinstance(t, int) else t, **values})

    def value_at(t: Any, *i: Any) -> Any:
        t = getattr(t, "var", t)
        if is_value:
            return at(value, t, i)
        if isinstance(t, int):
            return at(at_start if t == 0 else value, t, i)
        return te.if_then_else(t < 1, at(at_start, t, i), at(value, te.max(t, 1), i))

    def weight_at(t: Any, *i: Any) -> Any:
        assert weight is not None
        return at(weight, getattr(t, "var", t), i)

    steps, *shape = map(extent, update.axis)
    dtype = op.output().dtype
    return Recurrence(
        steps, tuple(shape), dtype, kind, value_at, None if weight is None else weight_at
    )


def _associative(body: Expr, state: Read) -> tuple[str, Expr | None, Expr] | None:
    """Return a combination, a[t] (None for 1) and x[t]; None for any other expression."""
    if isinstance(body, BinaryOp) and body.op in ("*", "max", "min"):
        a, b = body.children
        if (a is state) + (b is state) == 1 and not (mentions(a, state) and mentions(b, state)):
            return body.op, None, b if a is state else a
    found = _linear(body, state)
    if found is None or found[0] is None:
        return None
    weight, value = found
    value = const(0, body.dtype) if value is None else value
    is_one = weight is const(1, body.dtype)
    return "+", None if is_one else weight, value


def _linear(expr: Expr, state: Read) -> tuple[Expr | None, Expr | None] | None:
    """Return a and x of an expression a * state + x, None for 0; None if it is not linear."""
    if expr is state:
        return const(1, expr.dtype), None
    if not mentions(expr, state):
        return None, expr
    if not isinstance(expr, BinaryOp) or expr.op not in ("+", "-", "*"):
        return None
    one, two = (_linear(child, state) for child in expr.children)
    if one is None or two is None:
        return None
    if expr.op != "*":
        return _added(expr.op, one[0], two[0]), _added(expr.op, one[1], two[1])
    if one[0] is not None and two[0] is not None:
        return None
    (factor, own), other = (one, two[1]) if two[0] is None else (two, one[1])
    assert other is not None
    assert factor is not None
    scaled = other if factor is const(1, expr.dtype) else binary("*", factor, other)
    return scaled, None if own is None else binary("*", own, other)


def _added(op: str, x: Expr | None, y: Expr | None) -> Expr | None:
    if y is None:
        return x
    if x is None:
        return y if op == "+" else negate(y)
    return binary(op, x, y)
