"""Shapes as expressions over dimensions: equality and broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from autotune.ir.algebra.polynomials import add, multiply
from autotune.tile.binding.random_generator import GENERATORS, WORDS
from autotune.tile.syntax.syntax_tree import (
    BinaryExpr,
    CallExpr,
    Conditional,
    Expr,
    Name,
    Negate,
    Number,
    children,
    names_in,
    substituted,
)

#: Size of each dimension of a tensor.
Shape: TypeAlias = tuple[Expr, ...]
#: Products of names (sorted) and their coefficients, which are never 0.
_Polynomial: TypeAlias = dict[tuple[str, ...], int]
_Terms: TypeAlias = frozenset[tuple[tuple[str, ...], int]]

ONE: Final = Number(1)
#: Largest number of names, numbers and operations of a size without computed dimensions.
_LONGEST: Final = 24
#: Largest product of the lengths of two polynomials to multiply.
_WIDEST: Final = 1000


class Extents:
    """Compares sizes of a function without knowing the value of its dimensions."""

    def __init__(self) -> None:
        self._defined: dict[str, _Polynomial] = {}
        self._written: dict[str, Expr | None] = {}
        self._opaque: dict[tuple[str, tuple[_Terms, ...]], str] = {}

    def define(self, name: str, value: Expr) -> None:
        """Add a dimension that is computed from others."""
        self._defined[name] = self._polynomial(value)
        self._written[name] = self.written_out(value)

    def written_out(self, expr: Expr) -> Expr | None:
        """Return a size without computed dimensions; None if it is too long."""
        values = {name.text: self._written.get(name.text, name) for name in names_in(expr)}
        known = {name: value for name, value in values.items() if value is not None}
        if len(known) < len(values):
            return None
        whole = substituted(expr, known)
        return whole if _length(whole) <= _LONGEST else None

    def same(self, a: Expr, b: Expr) -> bool:
        """Whether two sizes are certainly equal."""
        return self._polynomial(a) == self._polynomial(b)

    def broadcast(self, shapes: Iterable[Shape]) -> Shape:
        """Return the shape of operands together: from the right, sizes are equal or one is 1."""
        result: Shape = ()
        for shape in shapes:
            rank = max(len(result), len(shape))
            a = (ONE,) * (rank - len(result)) + result
            b = (ONE,) * (rank - len(shape)) + shape
            result = tuple(self._larger(*pair) for pair in zip(a, b, strict=True))
        return result

    def position(self, index: Expr, operand: Expr, result: Expr) -> Expr:
        """Return the index in an operand for an index along a broadcast dimension.

        If it is not known whether the operand's size is 1 or the result's, their quotient decides:
        rounded down it is 0 or 1.
        """
        if self.same(operand, result):
            return index
        if self.same(operand, ONE):
            return Number(0)
        return BinaryExpr("*", BinaryExpr("/", operand, result), index)

    def _larger(self, a: Expr, b: Expr) -> Expr:
        """Return the larger of two sizes that are equal or of which one is 1."""
        if self.same(a, b) or self.same(b, ONE):
            return a
        if self.same(a, ONE):
            return b
        # b rounded up to a multiple of a: a where b is a or 1, b where a is 1.
        padded = BinaryExpr("-", BinaryExpr("+", b, a), ONE)
        return BinaryExpr("*", BinaryExpr("/", padded, a), a)

    def _polynomial(self, expr: Expr) -> _Polynomial:
        match expr:
            case Number(value):
                return {(): int(value)} if value else {}
            case Name(text):
                return self._defined.get(text, {(text,): 1})
            case Negate(value):
                return {names: -factor for names, factor in self._polynomial(value).items()}
            case BinaryExpr(op, left, right):
                return self._combined(op, self._polynomial(left), self._polynomial(right))
            case CallExpr(Name(function)):
                return self._unknown(function, *map(self._polynomial, children(expr)))
            case Conditional():
                return self._unknown("?", *map(self._polynomial, children(expr)))
        raise AssertionError(f"not a dimension: {expr}")

    def _unknown(self, operation: str, *operands: _Polynomial) -> _Polynomial:
        """Return a name for the value of an opaque operation."""
        key = operation, tuple(frozenset(operand.items()) for operand in operands)
        return {(self._opaque.setdefault(key, f"({len(self._opaque)})"),): 1}

    def _combined(self, op: str, a: _Polynomial, b: _Polynomial) -> _Polynomial:
        if op not in "+-*" or (op == "*" and _width(a) * _width(b) > _WIDEST):  # "/" rounds down
            return self._unknown(op, a, b)
        return multiply(a, b, key=None) if op == "*" else add(a, b, 1 if op == "+" else -1)


def _length(expr: Expr) -> int:
    return 1 + sum(map(_length, children(expr)))


def _width(polynomial: _Polynomial) -> int:
    return sum(1 + len(names) for names in polynomial)


_Of = Callable[[Expr], Shape]
_Arguments = tuple[Expr, ...]


def _first(of: _Of, arguments: _Arguments) -> Shape:
    return of(arguments[0])


def _sizes(of: _Of, arguments: _Arguments) -> Shape:
    return arguments[1:]


def _gather(of: _Of, arguments: _Arguments) -> Shape:
    return (*of(arguments[1]), *of(arguments[0])[1:])


def _scatter(of: _Of, arguments: _Arguments) -> Shape:
    rows, numbers, like = map(of, arguments)
    return (like[0], *rows[len(numbers) :])


#: By function, given the shape of expressions and its arguments; others have that of their operands
#: together.
SHAPES: Final[dict[str, Callable[[_Of, _Arguments], Shape]]] = {
    **dict.fromkeys(("index", "as_float", "as_int", "as_uint", "as_bool", "prng_value"), _first),
    **dict.fromkeys(("reshape", "builtin_softmax", "builtin_logsoftmax", "prng_step"), _sizes),
    "shape": lambda of, arguments: (Number(len(of(arguments[0]))),),
    "gather": _gather,
    "scatter": _scatter,
    "prng_state": lambda of, arguments: (Number(WORDS), Number(GENERATORS)),
}
