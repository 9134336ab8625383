"""Recurrences y[t] = a[t] * y[t - 1] + x[t] as tensor expressions: step by step, or in blocks.

With blocks the steps are divided among blocks. The effect of a block on the value before it is
reduced to two numbers, a scan over the blocks computes the value before each block, and each block
computes its steps from that value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from autotune import te

Element = Callable[[Any, Any], Any]
"""An expression of a step and a column."""


@dataclass(frozen=True)
class Recurrence:
    """A recurrence in independent columns.

    Attributes
    ----------
    steps, columns : int
    dtype : str
    value : callable
        x[t] of a column.
    weight : callable or None
        a[t] of a column; None for 1.
    """

    steps: int
    columns: int
    dtype: str
    value: Element
    weight: Element | None = None

    def next(self, before: Any, t: Any, i: Any) -> Any:
        """Return the value at a step, given that before it."""
        value = self.value(t, i)
        return before + value if self.weight is None else before * self.weight(t, i) + value

    def by_steps(self, name: str) -> StepByStep:
        """Return the scan over all steps."""
        shape = (self.steps, self.columns)
        state = te.placeholder(shape, self.dtype, name="state")
        init = te.compute((1, self.columns), lambda _, i: self.value(0, i), name="init")
        update = te.compute(
            shape, lambda t, i: self.next(state[t - 1, i], t, i), name="update"
        )
        return StepByStep(init, update, te.scan(init, update, state, name=name))

    def by_blocks(self, length: Any) -> Blocks:
        """Return the three phases for blocks of `length` steps, the last one maybe shorter."""
        count = te.ceildiv(self.steps, length)
        ends, factors = self._ends(count, length)
        before = te.placeholder((count, self.columns), self.dtype, name="before")

        def carried(b: Any, i: Any) -> Any:
            own = before[b - 1, i]
            return (own if factors is None else own * factors[b - 1, i]) + ends[b - 1, i]

        zero = te.const(0, self.dtype)
        none = te.compute((1, self.columns), lambda _, i: zero, name="none")
        more = te.compute((count, self.columns), carried, name="more")
        carry = te.scan(none, more, before, name="carry")

        def step(value: Any, b: Any, t: Any, i: Any) -> Any:
            own = value if self.weight is None else value * self._weight_in(length, b, t, i)
            return own + self._value_in(length, b, t, i)

        inside = (length, count, self.columns)
        state = te.placeholder(inside, self.dtype, name="inside")
        first = te.compute(
            (1, count, self.columns), lambda _, b, i: step(carry[b, i], b, 0, i), name="first"
        )
        later = te.compute(
            inside, lambda t, b, i: step(state[t - 1, b, i], b, t, i), name="later"
        )
        parts = te.scan(first, later, state, name="parts")
        return Blocks(length, ends, none, more, carry, first, later, parts)

    def _ends(self, count: Any, length: Any) -> tuple[Any, Any]:
        """Return the result of each block for a start of 0, and its factor (None for 1)."""
        shape = (count, self.columns)
        k = te.reduce_axis((0, length), name="k")
        if self.weight is None:

            def total(b: Any, i: Any) -> Any:
                return te.sum(self._value_in(length, b, k, i), axis=k, dtype=self.dtype)

            return te.compute(shape, total, name="ends"), None
        # Not commutative, but no schedule here changes the order of steps.
        after = te.comm_reducer(
            lambda x, y: (x[0] * y[0], x[1] * y[0] + y[1]),
            lambda factor, end: (te.const(1, factor), te.const(0, end)),
            name="after",
        )

        def pair(b: Any, i: Any) -> Any:
            own = self._weight_in(length, b, k, i), self._value_in(length, b, k, i)
            return after(own, axis=k)

        factors, ends = te.compute(shape, pair, name="ends")
        return ends, factors

    def _value_in(self, length: Any, b: Any, t: Any, i: Any) -> Any:
        """Return x[t] of a block; 0 where it has no such step."""
        at, zero = b * length + t, te.const(0, self.dtype)
        return te.if_then_else(at < self.steps, self.value(at, i), zero)

    def _weight_in(self, length: Any, b: Any, t: Any, i: Any) -> Any:
        """Return a[t] of a block; 1 where it has no such step."""
        assert self.weight is not None
        at, one = b * length + t, te.const(1, self.dtype)
        return te.if_then_else(at < self.steps, self.weight(at, i), one)


@dataclass(frozen=True)
class StepByStep:
    """A scan over all steps."""

    init: Any
    update: Any
    scan: Any

    def element(self, t: Any, i: Any) -> Any:
        """Return the value of a column at a step."""
        return self.scan[t, i]


@dataclass(frozen=True)
class Blocks:
    """The phases: the ends of blocks, the values before them, the steps inside each."""

    length: Any
    ends: Any
    none: Any
    more: Any
    carry: Any
    first: Any
    later: Any
    parts: Any

    def element(self, t: Any, i: Any) -> Any:
        """Return the value of a column at a step."""
        return self.parts[t % self.length, t // self.length, i]
