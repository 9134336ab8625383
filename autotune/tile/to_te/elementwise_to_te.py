"""Writes element-wise values of Tile as expressions, one element at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from autotune import te
from autotune.ir import dtypes
from autotune.tile.binding.bound_program import Apply, Constant, Ref, Value

#: Index of an element: one integer expression per dimension.
Index: TypeAlias = tuple[Any, ...]


def expression(
    value: Value, index: Index, shape: Sequence[int], tensors: Mapping[str, te.Tensor]
) -> Any:
    """Return the element of a value at an index into a shape that it broadcasts to."""
    own = _broadcast(index, shape, value.type.shape)
    if isinstance(value, Constant):
        return te.const(value.value, value.type.dtype)
    if isinstance(value, Ref):
        return tensors[value.tensor][own]
    if value.op == "index":
        return own[value.numbers[0]].astype("int32")
    if value.op == "shape":
        return _listed(value.numbers, own[0], value.type.dtype)
    if value.op == "gather":
        return _gathered(value, own, tensors)
    if value.op == "reshape":
        inner = value.args[0].type.shape
        return expression(value.args[0], _unravelled(own, value.type.shape, inner), inner, tensors)
    args = [expression(arg, own, value.type.shape, tensors) for arg in value.args]
    return _applied(value, args)


def _broadcast(index: Index, shape: Sequence[int], own: Sequence[int]) -> Index:
    """Index of an element in a shape that broadcasts to `shape`."""
    last = index[len(shape) - len(own) :]
    return tuple(te.const(0, "int32") if n == 1 else i for i, n in zip(last, own, strict=True))


def _unravelled(index: Index, shape: Sequence[int], inner: Sequence[int]) -> Index:
    """Index of the element of a shape that has the same place in row-major order."""
    flat: Any = te.const(0, "int32" if math.prod(shape) < 2**31 else "int64")
    for i, size in zip(index, shape, strict=True):
        flat = flat * size + i
    result = []
    for size in reversed(inner):
        result.append(flat % size)
        flat = flat // size
    return tuple(reversed(result))


def _listed(numbers: Sequence[int], at: Any, dtype: str) -> Any:
    """Return an element of a list by an index expression."""
    found: Any = te.const(numbers[-1], dtype)
    for place in reversed(range(len(numbers) - 1)):
        found = te.select(at == place, te.const(numbers[place], dtype), found)
    return found


def _gathered(value: Apply, index: Index, tensors: Mapping[str, te.Tensor]) -> Any:
    """Return an element of the row with a number, clamped to the first and last row."""
    rows, numbers = value.args
    places = len(numbers.type.shape)
    number = expression(numbers, index[:places], numbers.type.shape, tensors)
    most = rows.type.shape[0] - 1
    if dtypes.fits(most, number.dtype):
        number = te.Min(number, te.const(most, number.dtype))
    if not dtypes.is_unsigned(number.dtype):
        number = te.Max(number, te.const(0, number.dtype))
    row = number.astype("int32" if most < 2**31 else "int64")
    return expression(rows, (row, *index[places:]), rows.type.shape, tensors)


def _applied(apply: Apply, args: list[Any]) -> Any:
    op = apply.op
    if op == "cast":
        return args[0].astype(apply.type.dtype)
    if op == "select":
        return te.select(*args)
    if op in _OPERATORS:
        return _OPERATORS[op](*args)
    if op in _NATIVE:
        return _NATIVE[op](*args)
    if op in _BITS:
        return _of_bits(op, args)
    wide = (x.astype("float32") if dtypes.is_half(x.dtype) else x for x in args)
    return _COMPOSED[op](*wide).astype(apply.type.dtype)


def _of_bits(op: str, args: list[Any]) -> Any:
    """Apply an operation on bits; conditions are integers of one bit."""
    if args[0].dtype != dtypes.BOOL:
        return _BITS[op](*args)
    if op == "~":
        return _number(args[0]) == 0
    whole = _BITS[op](*(x.astype("int32") for x in args))
    return whole.astype(dtypes.BOOL)


_OPERATORS: Final[dict[str, Callable[..., Any]]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
    "/": lambda a, b: a / b, "neg": lambda a: -a,
    "==": lambda a, b: _number(a) == _number(b), "!=": lambda a, b: _number(a) != _number(b),
    "<": lambda a, b: _number(a) < _number(b), "<=": lambda a, b: _number(a) <= _number(b),
    ">": lambda a, b: _number(a) > _number(b), ">=": lambda a, b: _number(a) >= _number(b),
}  # fmt: skip
_NATIVE: Final[dict[str, Callable[..., Any]]] = {
    "abs": te.abs, "ceil": te.ceil, "floor": te.floor, "round": te.round, "sqrt": te.sqrt,
    "exp": te.exp, "log": te.log, "sin": te.sin, "cos": te.cos, "tanh": te.tanh,
    "sigmoid": te.sigmoid, "pow": te.power, "max": te.Max, "min": te.Min,
    "relu": lambda x: te.Max(x, te.const(0, x.dtype)),
}  # fmt: skip
#: Operations on the bits of integers.
_BITS: Final[dict[str, Callable[..., Any]]] = {
    "&": te.bitwise_and, "|": te.bitwise_or, "^": te.bitwise_xor, "~": te.bitwise_not,
    "<<": te.shift_left, ">>": te.shift_right,
}  # fmt: skip


def _number(x: Any) -> Any:
    return x.astype("int32") if x.dtype == dtypes.BOOL else x


# -- functions made of others --------------------------------------------------------------------


def _const(x: Any, value: float) -> Any:
    return te.const(value, x.dtype)


def _sinh(x: Any) -> Any:
    """2 t / (1 - t^2) with t = tanh(x / 2) near 0, where exponentials would cancel."""
    t, e = te.tanh(x * 0.5), te.exp(te.abs(x) * 0.5)
    far = (e * 0.5) * e - (_const(x, 0.5) / e) / e
    near = t * 2.0 / (_const(x, 1.0) - t * t)
    return te.select(te.abs(x) < 1.0, near, te.select(x < 0.0, -far, far))


def _cosh(x: Any) -> Any:
    e = te.exp(te.abs(x) * 0.5)  # the square is formed last, so that it overflows late
    return (e * 0.5) * e + (_const(x, 0.5) / e) / e


def _atan(x: Any) -> Any:
    """Taylor's series after halving the angle twice: it is then below pi / 16."""
    a = te.abs(x)
    y = te.select(a > 1.0, _const(x, 1.0) / a, a)
    for _ in range(2):
        y = y / (te.sqrt(y * y + 1.0) + 1.0)
    square, series = y * y, _const(x, 0.0)
    for k in range(9, -1, -1):
        series = series * square + (-1.0) ** k / (2 * k + 1)
    angle = series * y * 4.0
    angle = te.select(a > 1.0, _const(x, math.pi / 2) - angle, angle)
    return te.select(x < 0.0, -angle, angle)


def _asin(x: Any) -> Any:
    return _atan(x / (te.sqrt((_const(x, 1.0) - x) * (x + 1.0)) + 1.0)) * 2.0


def _acos(x: Any) -> Any:
    return _atan(te.sqrt((_const(x, 1.0) - x) / (x + 1.0))) * 2.0


def _crossentropy(x: Any, wanted: Any) -> Any:
    one = _const(x, 1.0)
    return -wanted * te.log(x) - (one - wanted) * te.log(one - x)


_COMPOSED: Final[dict[str, Callable[..., Any]]] = {
    "tan": lambda x: te.sin(x) / te.cos(x),
    "sinh": _sinh, "cosh": _cosh, "atan": _atan, "asin": _asin, "acos": _acos,
    "builtin_binary_crossentropy": _crossentropy,
}  # fmt: skip
