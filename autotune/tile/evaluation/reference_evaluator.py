"""The reference evaluator of Tile: evaluates a bound function with NumPy.

Contractions visit their valid index sets; element-wise statements are NumPy's operations. Compiled
functions are compared with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from autotune.errors import ArgumentError
from autotune.ir import dtypes
from autotune.tile.binding.bound_program import Apply, Constant, Elementwise, Program, Ref, Value
from autotune.tile.evaluation.evaluate_contraction import contracted

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


def _sigmoid(x: Any) -> Any:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


def _crossentropy(x: Any, wanted: Any) -> Any:
    return -wanted * np.log(x) - (1 - wanted) * np.log(1 - x)


_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "sqrt": np.sqrt, "exp": np.exp, "log": np.log, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh,
    "tanh": np.tanh, "pow": np.power, "sigmoid": _sigmoid,
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
