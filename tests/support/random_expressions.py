"""Random integer expressions and conditions, and their values on a grid of points by NumPy.

The generator is plain and seeded, so that 100,000 expressions take minutes; shapes that the
simplifier has rules for (quotients and remainders of sums, of one index, of each other) come up
often. Values are computed here once more, apart from the interpreter.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.ir import dtypes, ops
from autotune.ir.algebra.simplify_expr import Canonical
from autotune.ir.algebra.simplify_stmt import Simplifier
from autotune.ir.expr import BinaryOp, Call, Cast, Const, Expr, Not, Select, Var
from support.numpy_operations import NUMPY

Array = npt.NDArray[Any]
Ranges = Mapping[Var, tuple[int, int]]

DIVISORS = (1, 2, 2, 3, 4, 4, 6, 8, 12, -1, -2, -3)
SCALES = (-6, -4, -3, -2, -1, 1, 2, 2, 3, 4, 4, 6, 8, 12)


class Generator:
    """Makes expressions over `leaves`.

    Parameters
    ----------
    rng : random.Random
        Where everything random comes from.
    leaves : sequence of Expr
        Variables, or loads, of integer types.
    types : sequence of str
        Integer types through which a number may be cast on its way.
    lazy : bool
        Whether to make what is evaluated for knobs only: greatest common divisors, and divisions by
        zero on that side of a select which does not count.
    """

    def __init__(
        self,
        rng: random.Random,
        leaves: Sequence[Expr],
        types: Sequence[str],
        lazy: bool = True,
    ) -> None:
        self.rng = rng
        self.leaves = leaves
        self.types = types
        self.lazy = lazy

    def any(self, depth: int) -> Expr:
        """Return a number of the first leaf's type or, one time in four, a condition."""
        dtype = self.leaves[0].dtype
        return self.condition(depth, dtype) if self.chance(0.25) else self.number(depth, dtype)

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def pick(self, values: Sequence[int], dtype: str) -> Expr:
        """Return one of the values as a constant, or its magnitude if `dtype` has no signs."""
        value = self.rng.choice(values)
        return ops.const(value if dtypes.min_value(dtype) < 0 else abs(value), dtype)

    def number(self, depth: int, dtype: str) -> Expr:
        """Return an integer of up to `depth` levels of operations."""
        if depth <= 0:
            return self.leaf(dtype)
        make = self.rng.choice(
            (self.sum, self.sum, self.linear, self.linear, self.division, self.division,
             self.division, self.pieces, self.extremum, self.choice, self.product, self.cast,
             self.divisor if self.lazy else self.sum)
        )  # fmt: skip
        return make(depth, dtype)

    def leaf(self, dtype: str) -> Expr:
        if self.chance(0.25):
            return self.pick(range(-6, 13), dtype)
        own = [leaf for leaf in self.leaves if leaf.dtype == dtype]
        return self.rng.choice(own) if own else ops.cast(dtype, self.rng.choice(self.leaves))

    def sum(self, depth: int, dtype: str) -> Expr:
        op = self.rng.choice("++-")
        return ops.binary(op, self.number(depth - 1, dtype), self.number(depth - 2, dtype))

    def linear(self, depth: int, dtype: str) -> Expr:
        total = self.number(depth - 1, dtype) * self.pick(SCALES, dtype)
        for _ in range(self.rng.randrange(3)):
            total = total + self.number(depth - 2, dtype) * self.pick(SCALES, dtype)
        return total + self.pick(range(-5, 9), dtype) if self.chance(0.5) else total

    def division(self, depth: int, dtype: str) -> Expr:
        op, a = self.rng.choice(("//", "%")), self.number(depth - 1, dtype)
        if self.chance(0.85):
            return ops.binary(op, a, self.pick(DIVISORS, dtype))
        b = self.number(depth - 2, dtype)
        if not self.lazy or isinstance(b, Const) or self.chance(0.5):
            return ops.binary(op, a, ops.binary("max", b, self.pick(range(1, 5), dtype)))
        return ops.select(ops.binary("!=", b, ops.const(0, dtype)), BinaryOp(op, a, b), a)

    def pieces(self, depth: int, dtype: str) -> Expr:
        """Quotient and remainder of one index, put together again, rightly or nearly so."""
        x = self.number(depth - 2, dtype)
        c, k = self.rng.choice((2, 3, 4, 6)), self.rng.choice((1, 1, 2, 3))
        d = c if self.chance(0.8) else self.rng.choice((2, 3, 4, 6, 12))
        low, high = x % d, x // c
        if self.chance(0.4):
            e = self.rng.choice((1, 2, 3, 6))
            low, d = low // e, max(d // e, 1)
        if self.chance(0.3):
            high = high % self.rng.choice((2, 3, 4))
        return high * (d * k) + low * k + self.number(depth - 3, dtype)

    def extremum(self, depth: int, dtype: str) -> Expr:
        a = self.number(depth - 1, dtype)
        near = self.pick(range(-8, 30), dtype)
        b = near if self.chance(0.5) else self.number(depth - 1, dtype)
        return ops.binary(self.rng.choice(("min", "max")), a, b)

    def choice(self, depth: int, dtype: str) -> Expr:
        make = self.rng.choice((ops.select, ops.if_then_else))
        test = self.condition(depth - 1, dtype)
        return make(test, self.number(depth - 1, dtype), self.number(depth - 2, dtype))

    def product(self, depth: int, dtype: str) -> Expr:
        return self.number(min(depth - 1, 2), dtype) * self.number(min(depth - 2, 2), dtype)

    def divisor(self, depth: int, dtype: str) -> Expr:
        """Return the greatest common divisor of two numbers that are not negative."""
        least = self.pick((0, 1), dtype)
        a, b = self.number(depth - 1, dtype), self.number(depth - 2, dtype)
        return ops.gcd(ops.binary("max", a, least), ops.binary("max", b, least))

    def cast(self, depth: int, dtype: str) -> Expr:
        """Return a number that comes from a condition or from another type."""
        if self.chance(0.3):
            return ops.cast(dtype, self.condition(depth - 1, dtype))
        return ops.cast(dtype, self.number(depth - 1, self.rng.choice(self.types)))

    def condition(self, depth: int, dtype: str) -> Expr:
        """Return a condition of up to `depth` levels of operations."""
        roll = self.rng.random() if depth > 1 else 1.0
        if roll < 0.15:
            return ops.logical_not(self.condition(depth - 1, dtype))
        if roll < 0.35:
            op = self.rng.choice(("and", "or"))
            a, b = self.condition(depth - 1, dtype), self.condition(depth - 2, dtype)
            return ops.binary(op, a, b)
        if roll < 0.4:
            return ops.likely(self.condition(depth - 1, dtype))
        op = self.rng.choice(("==", "!=", "<", "<=", ">", ">="))
        near = self.pick(range(-12, 30), dtype)
        b = near if self.chance(0.5) else self.number(depth - 1, dtype)
        return ops.binary(op, self.number(depth - 1, dtype), b)


class TooLargeError(ArithmeticError):
    """A value that int64 may not hold."""


class Grid:
    """Values of expressions at many points.

    Where `wraps`, every operation wraps to its type, as in stored values. Otherwise those of index
    types are exact; where int64 may not hold them, they raise `TooLargeError`.
    """

    def __init__(self, values: Mapping[Expr, Array], wraps: bool) -> None:
        self.wraps = wraps
        self.known: dict[Expr, Array] = {
            leaf: array.astype(self._kind(leaf.dtype)) for leaf, array in values.items()
        }

    @classmethod
    def of(cls, ranges: Ranges, wraps: bool = False) -> Grid:
        """Return the grid of all points in the ranges."""
        axes = np.meshgrid(*(np.arange(low, high + 1) for low, high in ranges.values()))
        return cls({v: axis.reshape(-1) for v, axis in zip(ranges, axes, strict=True)}, wraps)

    def _kind(self, dtype: str) -> str:
        return "int64" if self._is_exact(dtype) else dtype

    def _is_exact(self, dtype: str) -> bool:
        return not self.wraps and dtypes.is_index(dtype)

    def __call__(self, node: Expr) -> Array:
        """Return the values of an expression; what is divided by zero is anything."""
        found = self.known.get(node)
        if found is None:
            with np.errstate(all="ignore"):
                found = self.known[node] = self._compute(node)
        return found

    def _compute(self, node: Expr) -> Array:
        if isinstance(node, Const):
            return np.array(node.value, self._kind(node.dtype))
        values = [self(child) for child in node.children]
        match node:
            case BinaryOp(op=op):
                if self._is_exact(node.dtype) and op in ("+", "-", "*"):
                    self._check_size(op, *values)
                return np.asarray(NUMPY[op](*values))
            case Not():
                return np.logical_not(*values)
            case Select() | Call(name="if_then_else"):
                return np.where(*values)
            case Call(name="likely"):
                return values[0]
            case Call(name="gcd"):
                return np.asarray(np.gcd(*values))
            case Cast():
                keeps = self._is_exact(node.dtype) and self._is_exact(node.a.dtype)
                cast = values[0] if keeps else values[0].astype(node.dtype)
                return cast.astype(self._kind(node.dtype))
        raise TypeError(f"a {type(node).__name__} has no values here: {node}")

    @staticmethod
    def _check_size(op: str, a: Array, b: Array) -> None:
        x, y = (int(np.abs(v).max(initial=0)) for v in (a, b))
        if (x * y if op == "*" else x + y) >= 2**62:
            raise TooLargeError


def assert_sound(expr: Expr, ranges: Ranges) -> None:
    """Check simplified values and bounds at every point; raise TooLargeError if they are."""
    simplifier, grid = Simplifier(ranges), Grid.of(ranges)
    with_digits = Canonical(dict(ranges), has_digits=True)
    for after in (simplifier.expr(expr), with_digits.expr(expr)):
        before, values = np.broadcast_arrays(grid(expr), grid(after))
        form = f"`{expr}` became `{after}` for {ranges}"
        assert before.dtype == values.dtype, form
        assert np.array_equal(before, values), form
    if expr.dtype != "bool":
        low, high = simplifier.bounds(expr)
        assert low <= before.min(), f"bounds of `{expr}` for {ranges}"
        assert before.max() <= high, f"bounds of `{expr}` for {ranges}"
