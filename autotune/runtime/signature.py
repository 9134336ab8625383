"""What a compiled function takes, as plain data: it is saved with the code and read without the IR.

An extent is an integer, the name of a size, or an operation on extents: ("+", "n", 1), or
("select", ("<", "n", 8), "n", 8).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from autotune.errors import CodegenError

if TYPE_CHECKING:
    from autotune.ir.expr import Expr, SizeVar
    from autotune.ir.stmt import PrimFunc

Extent = int | str | tuple[Any, ...]

_OPERATIONS: Final[dict[str, Callable[[int, int], int]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "min": min,
    "max": max,
    "gcd": math.gcd,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

#: Operations that evaluate only some operands, and the number of these.
_LAZY: Final = {"select": 3, "and": 2, "or": 2, "not": 1}


@dataclass(frozen=True)
class ArrayParameter:
    """An array that a function takes."""

    name: str
    dtype: str
    #: Row-major.
    shape: tuple[Extent, ...]
    #: Whether the function writes it.
    is_output: bool
    #: Sizes that say by how many elements its dimensions lie apart; None for a C-contiguous array.
    strides: tuple[str, ...] | None = None

    @property
    def fixed(self) -> tuple[int, ...] | None:
        """The shape if no size occurs in it."""
        extents = tuple(extent for extent in self.shape if isinstance(extent, int))
        return extents if len(extents) == len(self.shape) else None


@dataclass(frozen=True)
class Signature:
    """Name, arrays and sizes of a function, in the order of its machine code's arguments."""

    name: str
    #: Inputs, then outputs.
    parameters: tuple[ArrayParameter, ...]
    #: Names, all different, of the sizes that calls read off the arrays' shapes and strides.
    sizes: tuple[str, ...] = ()
    #: Numbers of steps of scans, and how many of them each computes in any case.
    at_least: tuple[tuple[Extent, int], ...] = ()

    @classmethod
    def of(cls, function: PrimFunc) -> Signature:
        """Return the signature of `function`.

        Raises CodegenError if an extent is computed with what a call does not know.
        """
        names = size_names(function)
        parameters = tuple(
            ArrayParameter(
                p.name,
                p.dtype,
                tuple(extent_of(e, names) for e in p.shape),
                p in function.outputs,
                None if p.strides is None else tuple(names[stride] for stride in p.strides),
            )
            for p in function.params
        )
        least = tuple((extent_of(e, names), n) for e, n in function.info.least_extents)
        return cls(function.name, parameters, tuple(names.values()), least)

    def to_json(self) -> dict[str, Any]:
        """Return the signature as JSON data."""
        arrays = [
            {"name": p.name, "dtype": p.dtype, "shape": p.shape, "output": p.is_output}
            for p in self.parameters
        ]
        data = {"name": self.name, "arrays": arrays, "sizes": self.sizes}
        return {**data, "at_least": self.at_least} if self.at_least else data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Signature:
        """Read the result of `to_json`.

        Raises KeyError or TypeError or ValueError if it is something else.
        """
        parameters = tuple(
            ArrayParameter(
                str(entry["name"]),
                str(entry["dtype"]),
                tuple(checked_extent(extent) for extent in entry["shape"]),
                bool(entry["output"]),
            )
            for entry in data["arrays"]
        )
        least = tuple((checked_extent(e), int(n)) for e, n in data.get("at_least", ()))
        return cls(str(data["name"]), parameters, tuple(map(str, data["sizes"])), least)


def extent_value(extent: Extent, sizes: Mapping[str, int]) -> int:
    """Return the value of an extent for given sizes."""
    if isinstance(extent, int):
        return extent
    if isinstance(extent, str):
        return sizes[extent]
    match extent:
        case ("select", test, yes, no):
            return extent_value(yes if extent_value(test, sizes) else no, sizes)
        case ("and", a, b):
            return extent_value(a, sizes) and extent_value(b, sizes)
        case ("or", a, b):
            return extent_value(a, sizes) or extent_value(b, sizes)
        case ("not", a):
            return not extent_value(a, sizes)
    op, a, b = extent
    return _OPERATIONS[op](extent_value(a, sizes), extent_value(b, sizes))


def extent_text(extent: Extent) -> str:
    """Return an extent as a reader would write it, such as ``n + 1``, ``min(n, 8)``."""
    if not isinstance(extent, tuple):
        return str(extent)
    op, *operands = extent
    if op.isalpha() and op not in ("and", "or"):
        return f"{op}({', '.join(map(extent_text, operands))})"
    return f" {op} ".join(map(_operand_text, operands))


def _operand_text(extent: Extent) -> str:
    plain = not isinstance(extent, tuple) or extent[0] in ("min", "max", "gcd", "select", "not")
    return extent_text(extent) if plain else f"({extent_text(extent)})"


def size_names(function: PrimFunc) -> dict[SizeVar, str]:
    """Return a name for each size of a function, all different."""
    names: dict[SizeVar, str] = {}
    for size in function.sizes:
        taken = size.name in names.values()
        names[size] = f"{size.name}_{len(names)}" if taken else size.name
    return names


def extent_of(extent: Expr, names: Mapping[SizeVar, str]) -> Extent:
    """Return an extent as plain data.

    Raises CodegenError if it is computed with what a call does not know.
    """
    # Imported here, so that saved functions are loaded without it.
    from autotune.ir.expr import BinaryOp, Call, Cast, Const, Not, Select, SizeVar

    def operation(op: str) -> Extent:
        return (op, *(extent_of(child, names) for child in extent.children))

    match extent:
        case Const(value=value):
            return int(value)
        case SizeVar() if extent in names:
            return names[extent]
        case Cast(a=a):
            return extent_of(a, names)
        case BinaryOp(op=op) if op in _OPERATIONS or op in _LAZY:
            return operation(op)
        case Select() | Call(name="if_then_else"):
            return operation("select")
        case Not():
            return operation("not")
        case Call(name="gcd"):
            return operation("gcd")
    raise CodegenError(f"extent {extent} has no value: it is not computed from sizes of arrays")


def checked_extent(data: Any) -> Extent:
    """Return an extent that was read from JSON; ValueError if it is none."""
    if isinstance(data, (int, str)):
        return data
    if isinstance(data, Sequence) and data and isinstance(data[0], str):
        op, *operands = data
        if len(operands) == _LAZY.get(op, 2) and (op in _LAZY or op in _OPERATIONS):
            return (op, *map(checked_extent, operands))
    raise ValueError(f"{data!r} is not an extent")
