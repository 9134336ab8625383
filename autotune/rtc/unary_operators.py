"""The element-wise operators of the device header by name, and the same functions in NumPy.

`autotune/codegen/cuda/device/operators.cuh` has their code.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from autotune.errors import UsageError
from autotune.ir import dtypes
from autotune.ir.intrinsics import sigmoid

Array = npt.NDArray[Any]

# Type of a result: with a fraction, the operand's accumulation type, or a condition.
Result = Literal["real", "same", "bool"]


@dataclass(frozen=True)
class UnaryOperator:
    """An operator of one operand."""

    #: ``op::name`` in kernels.
    name: str
    #: Takes an array of its result's type, of the operand's where that is a condition;
    #: returns the result.
    meaning: Callable[[Array], Any]
    #: Its type: see `result_dtype`.
    result: Result = "real"

    def result_dtype(self, dtype: str) -> str:
        """Return the type of the result for operands of type `dtype`."""
        if self.result == "bool":
            return dtypes.BOOL
        return real(dtype) if self.result == "real" else accumulation(dtype)

    def __call__(self, values: Array) -> Array:
        """Return the results for an array of any type of `autotune.ir.dtypes`."""
        dtype = values.dtype.name
        kind = self.result_dtype(dtype) if self.result != "bool" else accumulation(dtype)
        with np.errstate(all="ignore"):
            found = np.asarray(self.meaning(values.astype(kind)))
            return found.astype(self.result_dtype(dtype), copy=False)


def accumulation(dtype: str) -> str:
    """Type that values are computed in: float32 of half types, int32 of small integers and bool."""
    if dtypes.is_half(dtype):
        return "float32"
    return "int32" if dtypes.itemsize(dtype) < 4 else dtype


def real(dtype: str) -> str:
    """Type of functions with a fraction: float64 of float64 and integers of 32 bits and more."""
    wide = dtypes.itemsize(dtype) == 8 or (dtypes.is_integer(dtype) and dtypes.bits(dtype) == 32)
    return "float64" if wide else "float32"


def find_unary(name: str) -> UnaryOperator:
    """Return an operator of one operand.

    Raises UsageError if there is none of this name.
    """
    found = UNARY.get(name)
    if found is None:
        raise UsageError(f"there is no operator {name!r}: expected one of {', '.join(UNARY)}")
    return found


def _by_element(function: Callable[[float], float]) -> Callable[[Array], Array]:
    """Return a function of arrays for one of Python's floats, which NumPy lacks."""
    return np.vectorize(function, otypes=["float64"])


def _rounding(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return a function that leaves integers alone, which some versions of NumPy make floats."""
    return lambda x: x if x.dtype.kind in "iu" else function(x)


_erf, _erfc = _by_element(math.erf), _by_element(math.erfc)


def _gelu(x: Array) -> Array:
    return 0.5 * x * _erfc(x * -math.sqrt(0.5))


def _softplus(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


_REAL: dict[str, Callable[[Array], Any]] = {
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "cbrt": np.cbrt,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "arcsin": np.arcsin,
    "arccos": np.arccos,
    "arctan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "arcsinh": np.arcsinh,
    "arccosh": np.arccosh,
    "arctanh": np.arctanh,
    "erf": _erf,
    "erfc": _erfc,
    "reciprocal": lambda x: 1 / x,
    "sigmoid": sigmoid,
    "silu": lambda x: x * sigmoid(x),
    "softplus": _softplus,
    "softsign": lambda x: x / (1 + np.abs(x)),
    "gelu": _gelu,
}
_SAME: dict[str, Callable[[Array], Any]] = {
    "identity": lambda x: x,
    "negative": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "relu": functools.partial(np.maximum, 0),
    "square": np.square,
    "floor": _rounding(np.floor),
    "ceil": _rounding(np.ceil),
    "trunc": _rounding(np.trunc),
    "round": _rounding(np.rint),
}
_CONDITIONS: dict[str, Callable[[Array], Any]] = {
    "logical_not": np.logical_not,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
}

UNARY: dict[str, UnaryOperator] = {
    **{name: UnaryOperator(name, meaning) for name, meaning in _REAL.items()},
    **{name: UnaryOperator(name, meaning, "same") for name, meaning in _SAME.items()},
    **{name: UnaryOperator(name, meaning, "bool") for name, meaning in _CONDITIONS.items()},
}
