"""The reference evaluator of Tile: evaluates a bound function with NumPy.

Contractions visit their valid index sets; element-wise statements are NumPy's operations. Compiled
functions are compared with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from autotune.errors import ArgumentError
from autotune.ir import dtypes
from autotune.ir.intrinsics import sigmoid
from autotune.tile.binding.bound_program import (
    Apply,
    Constant,
    Contract,
    Elementwise,
    Program,
    Ref,
    Value,
)
from autotune.tile.index_sets.affine_forms import Affine
from autotune.tile.index_sets.box_decomposition import Box, boxes, is_worthwhile
from autotune.tile.index_sets.index_conditions import Ends

_OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide,
    "==": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal,
    ">": np.greater, ">=": np.greater_equal, "max": np.maximum, "min": np.minimum,
    "&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor,
    "<<": np.left_shift, ">>": np.right_shift,
}  # fmt: skip
_KEEPING: Final[dict[str, Callable[[Any], Any]]] = {
    "neg": np.negative, "abs": np.abs, "ceil": np.ceil, "floor": np.floor, "round": np.rint,
    "relu": lambda x: np.maximum(x, np.zeros((), x.dtype)), "~": np.invert,
}  # fmt: skip


def _crossentropy(x: Any, wanted: Any) -> Any:
    return -wanted * np.log(x) - (1 - wanted) * np.log(1 - x)


_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "sqrt": np.sqrt, "exp": np.exp, "log": np.log, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh,
    "tanh": np.tanh, "pow": np.power, "sigmoid": sigmoid,
    "builtin_binary_crossentropy": _crossentropy,
}  # fmt: skip


def evaluate(program: Program, *arrays: Any) -> tuple[Any, ...]:
    """Return the outputs of a program for some input arrays.

    Parameters
    ----------
    program
        A function bound to the shapes and dtypes of these arrays.
    *arrays
        One per input, in order.

    Returns
    -------
    tuple of ndarray
        One per output. Sums and products of floats are accumulated in float64 and rounded once.

    Raises
    ------
    ArgumentError
        If an array does not have the shape and dtype that the program is bound to.
    """
    if len(arrays) != len(program.inputs):
        raise ArgumentError(
            f"{program.function.name} takes {len(program.inputs)} arrays, got {len(arrays)}"
        )
    tensors: dict[str, Any] = {}
    for name, array in zip(program.inputs, map(np.asarray, arrays), strict=True):
        expected = program.types[name]
        if (array.shape, array.dtype.name) != (expected.shape, expected.dtype):
            raise ArgumentError(
                f"input {name} is bound to {expected.dtype}{list(expected.shape)}, "
                f"got {array.dtype.name}{list(array.shape)}"
            )
        tensors[name] = array
    with np.errstate(all="ignore"):
        for step in program.steps:
            if isinstance(step, Elementwise):
                value = _value(step.value, tensors)
                tensors[step.name] = np.broadcast_to(value, step.type.shape)
            else:
                tensors[step.name] = contracted(step, tensors)
    return tuple(np.array(tensors[name]) for name in program.outputs)


# -- element-wise ------------------------------------------------------------------------------


def _value(value: Value, tensors: Mapping[str, Any]) -> Any:
    """Evaluate an expression; its array may have fewer or smaller dimensions than its type."""
    if isinstance(value, Constant):
        return np.asarray(value.value).astype(dtypes.numpy_dtype(value.type.dtype))
    if isinstance(value, Ref):
        return tensors[value.tensor]
    return _applied(value, [_value(arg, tensors) for arg in value.args])


def _applied(apply: Apply, args: list[Any]) -> Any:
    op, dtype = apply.op, apply.type.dtype
    if op == "index":
        (axis,) = apply.numbers
        shape = [n if k == axis else 1 for k, n in enumerate(apply.type.shape)]
        return np.arange(shape[axis], dtype=dtypes.numpy_dtype(dtype)).reshape(shape)
    if op == "shape":
        return np.array(apply.numbers, dtypes.numpy_dtype(dtype))
    if op == "gather":
        return _gathered(apply, *args)
    if op == "reshape":
        return np.broadcast_to(args[0], apply.args[0].type.shape).reshape(apply.type.shape)
    if op == "select":
        return np.where(*args)
    if op == "cast":
        return dtypes.converted(args[0], dtype)
    if op in _OPERATORS:
        return _OPERATORS[op](*args).astype(dtypes.numpy_dtype(dtype))
    if op in _KEEPING:
        whole = not dtypes.is_float(dtype) and op in ("ceil", "floor", "round")
        return args[0] if whole else _KEEPING[op](args[0]).astype(dtypes.numpy_dtype(dtype))
    wide = [arg.astype(np.float64) for arg in args]
    return dtypes.converted(_FUNCTIONS[op](*wide), dtype)


def _gathered(apply: Apply, rows: Any, numbers: Any) -> Any:
    """Return rows by their numbers, clamped to the first and the last row."""
    shapes = [arg.type.shape for arg in apply.args]
    rows, numbers = (np.broadcast_to(a, s) for a, s in zip((rows, numbers), shapes, strict=True))
    most = len(rows) - 1
    inside = np.minimum(numbers.astype(object), most) if numbers.dtype == np.uint64 else numbers
    return rows[np.clip(inside.astype(np.int64), 0, most)]


_COMBINE: Final[dict[str, Callable[..., Any]]] = {
    "": lambda a: a, "*": np.multiply, "+": np.add, "==": np.equal,
    "?": lambda a, b, c: np.where(a == b, c, np.zeros_like(c)),
}  # fmt: skip
#: With "=" at most one index set writes an element, so any operation is right.
_AGGREGATE: Final[dict[str, np.ufunc]] = {
    "+": np.add, "*": np.multiply, ">": np.maximum, "<": np.minimum, "=": np.maximum,
}  # fmt: skip
#: Number of combined values that are computed at once.
_PIECE: Final = 1 << 22

#: Row-major offsets in the output, and the values to aggregate there: arrays of one shape.
Part = tuple[Any, Any]


def contracted(step: Contract, tensors: Mapping[str, Any], in_boxes: bool | None = None) -> Any:
    """Aggregate over all valid index sets; elements without one are 0, or the default's.

    `tensors`: arrays by name.
    `in_boxes`: whether to use boxes of index sets. The values are the same except for the order in
    which floats are added and multiplied. By default the faster way is used.

    Sums and products of floats are accumulated in float64 and rounded once. Half floats are rounded
    when they are combined, too.
    """
    shape, size = step.type.shape, math.prod(step.type.shape)
    wide = dtypes.is_float(step.accumulator) and step.aggregation in "+*"
    dtype = np.dtype("float64") if wide else dtypes.numpy_dtype(step.accumulator)
    result, written = np.zeros(size, dtype), np.zeros(size, bool)
    if step.aggregation != "=":
        result[:] = _neutral(step.aggregation, dtype.name)
    ends = step.domain.box()
    if ends is not None and in_boxes is None:
        in_boxes = is_worthwhile(step.domain, ends)
    visit = _by_boxes if in_boxes else _by_points
    read = _converted(step, tensors, dtype)
    for at, values in () if ends is None else visit(step, ends, read, dtype):
        written[at] = True
        if step.aggregation == "=":
            result[at] = values
        else:
            _AGGREGATE[step.aggregation].at(result, at, values)
    result[~written] = 0
    whole = dtypes.converted(result, step.type.dtype).reshape(shape)
    if not step.default:
        return whole
    other = dtypes.converted(np.asarray(tensors[step.default]), step.type.dtype)
    return np.where(written.reshape(shape), whole, other)


def _neutral(aggregation: str, dtype: str) -> Any:
    if aggregation in "+*":
        return 0 if aggregation == "+" else 1
    if dtype == dtypes.BOOL:
        return aggregation == "<"
    return dtypes.identity("max" if aggregation == ">" else "min", dtype)


def _converted(step: Contract, tensors: Mapping[str, Any], dtype: np.dtype[Any]) -> list[Any]:
    """Return the tensors of a contraction, converted to the types in which they are combined."""
    own = step.value_dtype if dtypes.is_half(step.value_dtype) else dtype.name
    compared = 2 if step.combination in ("?", "==") else 0
    return [
        dtypes.converted(tensors[read.tensor], step.compared_dtype if k < compared else own)
        for k, read in enumerate(step.reads)
    ]


def _by_points(step: Contract, ends: Ends, read: list[Any], dtype: Any) -> Iterator[Part]:
    """Yield the combined value of every valid index set."""
    for values in step.domain.points(ends):
        count = len(next(iter(values.values())))
        at = np.broadcast_to(_offsets(step.output, step.type.shape, values), count)
        elements = _elements(step, read, values)
        yield at, np.broadcast_to(_COMBINE[step.combination](*elements), count).astype(dtype)


def _by_boxes(step: Contract, ends: Ends, read: list[Any], dtype: Any) -> Iterator[Part]:
    """Yield the aggregated values of each box of valid index sets."""
    product = (step.aggregation, step.combination) == ("+", "*")
    product = product and not dtypes.is_half(step.value_dtype)
    for box in boxes(step.domain, ends):
        kept = [name for name in box.free if any(name in form.names for form in step.output)]
        if product and _reads_all(step, box):
            at = _offsets(step.output, step.type.shape, box.along(kept))
            yield at, _product_sum(step, read, box, kept)
            continue
        order = [*kept, *(name for name in box.free if name not in kept)]
        reduced = tuple(range(len(kept), len(order)))
        for piece in box.pieces(_PIECE):
            at = _offsets(step.output, step.type.shape, piece.along(kept))
            elements = _elements(step, read, piece.along(order))
            combined = np.broadcast_to(_COMBINE[step.combination](*elements), piece.shape(order))
            whole = combined.astype(dtype)
            yield at, _AGGREGATE[step.aggregation].reduce(whole, axis=reduced, dtype=dtype)


def _offsets(forms: tuple[Affine, ...], shape: tuple[int, ...], values: Mapping[str, Any]) -> Any:
    """Row-major offsets of index sets, whose values broadcast."""
    offset: Any = np.int64(0)
    for form, size in zip(forms, shape, strict=True):
        number, d = form.at(values)
        offset = offset * size + number // d
    return offset


def _elements(step: Contract, read: list[Any], values: Mapping[str, Any]) -> list[Any]:
    return [
        array.reshape(-1)[_offsets(r.indices, array.shape, values)]
        for r, array in zip(step.reads, read, strict=True)
    ]


# -- sums of products --------------------------------------------------------------------------


def _reads_all(step: Contract, box: Box) -> bool:
    """Whether both tensors together depend on all free indices."""
    known = {name for read in step.reads for form in read.indices for name in form.names}
    return known.issuperset(box.free)


def _product_sum(step: Contract, read: list[Any], box: Box, kept: list[str]) -> Any:
    """Return the sums of products of a box, by NumPy's matrix product if possible."""
    words: list[Any] = []
    for r, array in zip(step.reads, read, strict=True):
        own = [n for n in box.free if any(n in form.names for form in r.indices)]
        at = _offsets(r.indices, array.shape, box.along(own))
        words += [array.reshape(-1)[at], [box.free.index(n) for n in own]]
    return np.einsum(*words, [box.free.index(n) for n in kept], optimize=True)
