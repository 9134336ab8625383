"""Gives the expressions of element-wise statements their types and shapes.

Operands of two types are promoted as in tensor expressions (docs/dtypes.md). Literals and
dimensions are *weak*: they take the type of the other operand.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from autotune.errors import TileError
from autotune.ir import dtypes
from autotune.ir.ops import FOLD
from autotune.system.words import counted
from autotune.tile.binding.bound_program import Apply, Constant, Ref, TensorType, Value
from autotune.tile.check.dimension_arithmetic import dimension, division_by_zero
from autotune.tile.syntax import elementwise_functions
from autotune.tile.syntax.error_locations import tile_error
from autotune.tile.syntax.syntax_tree import (
    BITS,
    COMPARISONS,
    BinaryExpr,
    CallExpr,
    Conditional,
    Expr,
    Function,
    Name,
    Negate,
    Number,
)
from autotune.tile.syntax.unparser import expr_code

_FOLD: Final[dict[str, Callable[[Any, Any], Any]]] = {**FOLD, "/": operator.truediv}


@dataclass(frozen=True, slots=True)
class _Weak:
    """A number that has no type yet."""

    value: int | float


def typed(
    function: Function, expr: Expr, sizes: Mapping[str, int], types: Mapping[str, TensorType]
) -> Value:
    """Return a checked element-wise expression with types, shapes and conversions.

    Raises TileError for shapes that do not broadcast, and numbers that their type cannot represent.
    """
    typer = _Typer(function, sizes, types)
    return typer.strong(typer.value(expr))


def fraction(dtype: str) -> str:
    """Return the float type in which quotients and functions of a type are computed.

    For a float its own type; float32 for conditions and integers of up to 16 bits, which it
    represents exactly, else float64.
    """
    if dtypes.is_float(dtype):
        return dtype
    return "float32" if dtypes.bits(dtype) <= 16 else "float64"


def arithmetic(dtype: str) -> str:
    """Return the type in which values of a type are added and multiplied: conditions in int32."""
    return "int32" if dtype == dtypes.BOOL else dtype


def whole_number(function: Function, expr: Expr, own: TensorType) -> None:
    """Raise an error for numbers of rows that are not integers."""
    if not dtypes.is_integer(own.dtype):
        raise tile_error(
            function, expr.span,
            f"{expr_code(expr)} is {own.dtype}: numbers of rows are integers",
            f"convert it: as_int({expr_code(expr)}, 32)",
        )  # fmt: skip


def converted(value: Value, dtype: str) -> Value:
    """Return a value as another type."""
    if value.type.dtype == dtype:
        return value
    return Apply("cast", (value,), TensorType(value.type.shape, dtype))


class _Typer:
    def __init__(
        self, function: Function, sizes: Mapping[str, int], types: Mapping[str, TensorType]
    ) -> None:
        self.function = function
        self.sizes = sizes
        self.types = types

    def wrong(self, expr: Expr, problem: str, advice: str = "") -> TileError:
        return tile_error(self.function, expr.span, problem, advice)

    def value(self, expr: Expr) -> Value | _Weak:
        match expr:
            case Number(value):
                return _Weak(value)
            case Name(text):
                known = self.types.get(text)
                return _Weak(self.sizes[text]) if known is None else Ref(text, known)
            case Negate(value):
                return self.negated(self.value(value))
            case BinaryExpr():
                return self.binary(expr, self.value(expr.left), self.value(expr.right))
            case Conditional():
                return self.conditional(expr)
            case CallExpr():
                return self.call(expr)

    def negated(self, value: Value | _Weak) -> Value | _Weak:
        if isinstance(value, _Weak):
            return _Weak(-value.value)
        value = converted(value, arithmetic(value.type.dtype))
        return Apply("neg", (value,), value.type)

    # -- operators -----------------------------------------------------------------------------

    def binary(self, expr: BinaryExpr, a: Value | _Weak, b: Value | _Weak) -> Value | _Weak:
        if isinstance(a, _Weak) and isinstance(b, _Weak):
            return self.folded(expr, a.value, b.value)
        return self.applied(expr, expr.op, *self.unified(expr, a, b))

    def applied(self, expr: Expr, op: str, a: Value, b: Value) -> Value:
        """Apply an operator or a function of two operands of one type."""
        dtype = arithmetic(a.type.dtype)
        if op in ("&", "|", "^"):
            dtype = a.type.dtype
        if op in BITS:
            self.bits(expr, op, dtype)
        if op in ("/", "pow", "builtin_binary_crossentropy"):
            dtype = fraction(dtype)
        shape = self.broadcast(expr, a, b)
        result = TensorType(shape, dtypes.BOOL if op in COMPARISONS else dtype)
        return Apply(op, (converted(a, dtype), converted(b, dtype)), result)

    def bits(self, expr: Expr, op: str, dtype: str) -> None:
        """Raise an error for operations on the bits of floats."""
        if dtypes.is_float(dtype):
            raise self.wrong(
                expr,
                f"{op} is of integers and conditions: {expr_code(expr)} is of {dtype}",
                "powers are written pow(x, y)" if op == "^" else "convert it: as_int(x, 32)",
            )

    def folded(self, expr: BinaryExpr, a: int | float, b: int | float) -> Value | _Weak:
        if expr.op in COMPARISONS:
            return Constant(_FOLD[expr.op](a, b), TensorType((), dtypes.BOOL))
        if isinstance(a, int) and isinstance(b, int):
            return _Weak(dimension(self.function, expr, self.sizes))
        if expr.op in BITS:
            self.bits(expr, expr.op, "float32")
        if expr.op == "/" and b == 0:
            raise division_by_zero(self.function, expr.right)
        result = float(_FOLD[expr.op](a, b))
        if not math.isfinite(result):
            raise self.wrong(expr, f"{expr_code(expr)} is larger than any float64")
        return _Weak(result)

    def unified(self, expr: Expr, a: Value | _Weak, b: Value | _Weak) -> tuple[Value, Value]:
        """Return two operands as one type."""
        if isinstance(a, _Weak) and isinstance(b, _Weak):
            whole = isinstance(a.value, int) and isinstance(b.value, int)
            kind = int if whole else float
            a, b = self.strong(_Weak(kind(a.value))), self.strong(_Weak(kind(b.value)))
        if isinstance(a, _Weak):
            other = self.unified(expr, b, a)
            return other[1], other[0]
        if isinstance(b, _Weak):
            return self.beside(expr, a, b)
        dtype = dtypes.promote(a.type.dtype, b.type.dtype)
        return converted(a, dtype), converted(b, dtype)

    def beside(self, expr: Expr, a: Value, weak: _Weak) -> tuple[Value, Value]:
        """Return an operand and a number, which takes the operand's type if it fits."""
        dtype = arithmetic(a.type.dtype)
        if isinstance(weak.value, float):
            dtype = fraction(dtype)
        elif weak.value < 0 and isinstance(expr, BinaryExpr) and expr.op in ("&", "|", "^"):
            weak = _Weak(_bits_of(weak.value, dtype))
        if not dtypes.fits(weak.value, dtype):
            raise self.wrong(
                expr,
                f"{weak.value} beside an operand of type {dtype}, which does not have this number",
                f"convert the operand first: {self.widening(dtype)}",
            )
        number = float(weak.value) if dtypes.is_float(dtype) else weak.value
        return converted(a, dtype), Constant(number, TensorType((), dtype))

    def widening(self, dtype: str) -> str:
        return "as_float(x, 32)" if dtypes.is_half(dtype) else "as_int(x, 64)"

    def strong(self, value: Value | _Weak) -> Value:
        """Return a value; a weak number gets its default type."""
        if not isinstance(value, _Weak):
            return value
        if isinstance(value.value, int):
            dtype = dtypes.of_value(value.value)
        else:
            dtype = "float32" if dtypes.fits(value.value, "float32") else "float64"
        return Constant(value.value, TensorType((), dtype))

    def conditional(self, expr: Conditional) -> Value:
        condition = converted(self.strong(self.value(expr.condition)), dtypes.BOOL)
        then, otherwise = self.unified(expr, self.value(expr.then), self.value(expr.otherwise))
        shapes = then.type.shape, otherwise.type.shape
        if shapes[0] != shapes[1] and () not in shapes:
            raise self.wrong(
                expr,
                f"the two sides of a conditional have one shape or one is a scalar, "
                f"got {_shown(shapes[0])} and {_shown(shapes[1])}",
            )
        shape = self.broadcast(expr, condition, then, otherwise)
        result = TensorType(shape, then.type.dtype)
        return Apply("select", (condition, then, otherwise), result)

    def broadcast(self, expr: Expr, *values: Value) -> tuple[int, ...]:
        """Shape of operands together: from the right, sizes are equal or one of them is 1."""
        shape: tuple[int, ...] = ()
        for value in values:
            own = value.type.shape
            rank = max(len(shape), len(own))
            pairs = list(zip(_padded(shape, rank), _padded(own, rank), strict=True))
            for axis, (a, b) in enumerate(pairs):
                if a != b and 1 not in (a, b):
                    raise self.wrong(
                        expr,
                        f"shapes {_shown(shape)} and {_shown(own)} do not broadcast: "
                        f"{a} and {b} in dimension {axis}",
                        "sizes are matched from the right; they are equal or one of them is 1",
                    )
            shape = tuple(max(pair) for pair in pairs)
        return shape

    # -- functions -----------------------------------------------------------------------------

    def call(self, expr: CallExpr) -> Value | _Weak:
        name = expr.function.text
        if name.startswith(elementwise_functions.ASSERTION):
            return _Weak(dimension(self.function, expr, self.sizes))
        whole = {
            "index": self.index, "reshape": self.reshape, "shape": self.shape,
            "gather": self.gather,
        }.get(name)  # fmt: skip
        if whole is not None:
            return whole(expr)
        values = [self.value(argument) for argument in expr.arguments]
        if name in elementwise_functions.CASTS:
            kind = name.removeprefix("as_")
            bits = expr.arguments[1] if kind != "bool" else None
            dtype = f"{kind}{bits.value}" if isinstance(bits, Number) else kind
            return converted(self.strong(values[0]), dtype)
        if name in elementwise_functions.OF_DIMENSIONS and all(
            isinstance(value, _Weak) and isinstance(value.value, int) for value in values
        ):
            return _Weak(dimension(self.function, expr, self.sizes))
        if len(values) > 1:
            return self.applied(expr, name, *self.unified(expr, values[0], values[1]))
        weak, value = isinstance(values[0], _Weak), self.strong(values[0])
        dtype = arithmetic(value.type.dtype)
        if name == "~":
            dtype = value.type.dtype
            self.bits(expr, name, dtype)
        elif elementwise_functions.ELEMENT_WISE[name].of == "fraction":
            dtype = "float32" if weak else fraction(dtype)
        return Apply(name, (converted(value, dtype),), TensorType(value.type.shape, dtype))

    def index(self, expr: CallExpr) -> Value:
        value, axis = self.strong(self.value(expr.arguments[0])), expr.arguments[1]
        assert isinstance(axis, Number)
        return Apply("index", (), TensorType(value.type.shape, "int32"), (int(axis.value),))

    def shape(self, expr: CallExpr) -> Value:
        sizes = self.strong(self.value(expr.arguments[0])).type.shape
        return Apply("shape", (), TensorType((len(sizes),), dtypes.of_value(max(sizes))), sizes)

    def gather(self, expr: CallExpr) -> Value:
        rows, numbers = (self.strong(self.value(argument)) for argument in expr.arguments)
        whole_number(self.function, expr.arguments[1], numbers.type)
        shape = (*numbers.type.shape, *rows.type.shape[1:])
        return Apply("gather", (rows, numbers), TensorType(shape, rows.type.dtype))

    def reshape(self, expr: CallExpr) -> Value:
        value = self.strong(self.value(expr.arguments[0]))
        shape = tuple(dimension(self.function, s, self.sizes) for s in expr.arguments[1:])
        if min(shape, default=1) < 1 or math.prod(shape) != math.prod(value.type.shape):
            raise self.wrong(
                expr,
                f"{counted(math.prod(value.type.shape), 'element')} of shape "
                f"{_shown(value.type.shape)} do not fill the shape {_shown(shape)}",
            )
        if shape == value.type.shape:
            return value
        return Apply("reshape", (value,), TensorType(shape, value.type.dtype))


def _bits_of(value: int, dtype: str) -> int:
    """Return the number of an unsigned type that has the bits of a negative one, as of ~1."""
    wide = dtypes.is_unsigned(dtype) and value >= -(1 << dtypes.bits(dtype))
    return dtypes.wrapped(value, dtype) if wide else value


def _padded(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    return (1,) * (rank - len(shape)) + shape


def _shown(shape: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, shape))}]"
