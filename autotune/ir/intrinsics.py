"""The intrinsics of expressions by name: operand types, result type and meaning.

The interpreter computes with these functions, and the verifier checks calls by this table.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from autotune.ir import dtypes

#: Kinds of operands.
Kind = Literal["float", "integer"]


@dataclass(frozen=True)
class Intrinsic:
    """One element-wise function."""

    #: For floats a function of float64 NumPy scalars, whose result is rounded once to the
    #: type of the call. For integers a function of the operands' bits as non-negative Python
    #: integers, whose result wraps to the type of the call.
    meaning: Callable[..., Any]
    #: Number of operands, all of one type.
    arity: int = 1
    #: Kind of the operands.
    takes: Kind = "float"
    #: Type of the result; None: that of the operands.
    gives: str | None = None

    def accepts(self, dtype: str) -> bool:
        """Whether operands may be of type `dtype`."""
        check = dtypes.is_float if self.takes == "float" else dtypes.is_integer
        return check(dtype)


def sigmoid(x: Any) -> Any:
    """Return 1 / (1 + exp(-x)) of a number or of each in an array; small results keep digits."""
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def _power(x: Any, y: Any) -> float:
    """C's pow; NumPy takes the square root for an exponent of 0.5, which differs at -0 and -inf."""
    try:
        return math.pow(x, y)
    except (OverflowError, ValueError):
        if x < 0 and y != math.floor(y):
            return math.nan
        return math.copysign(math.inf, x) if y % 2 == 1 else math.inf


INTRINSICS: dict[str, Intrinsic] = {
    "exp": Intrinsic(np.exp),
    "exp2": Intrinsic(np.exp2),
    "log": Intrinsic(np.log),
    "log2": Intrinsic(np.log2),
    "sqrt": Intrinsic(np.sqrt),
    "rsqrt": Intrinsic(lambda x: 1.0 / np.sqrt(x)),
    "sin": Intrinsic(np.sin),
    "cos": Intrinsic(np.cos),
    "tanh": Intrinsic(np.tanh),
    "sigmoid": Intrinsic(sigmoid),
    "erf": Intrinsic(math.erf),
    "abs": Intrinsic(np.abs),
    "floor": Intrinsic(np.floor),
    "ceil": Intrinsic(np.ceil),
    "round": Intrinsic(np.rint),
    "trunc": Intrinsic(np.trunc),
    "pow": Intrinsic(_power, arity=2),
    "fmod": Intrinsic(np.fmod, arity=2),
    "isnan": Intrinsic(lambda x: bool(np.isnan(x)), gives=dtypes.BOOL),
    "popcount": Intrinsic(int.bit_count, takes="integer"),
    "bitwise_and": Intrinsic(operator.and_, arity=2, takes="integer"),
    "bitwise_or": Intrinsic(operator.or_, arity=2, takes="integer"),
    "bitwise_xor": Intrinsic(operator.xor, arity=2, takes="integer"),
    "shift_left": Intrinsic(lambda x, n: x << n if n < 64 else 0, arity=2, takes="integer"),
    "shift_right_logical": Intrinsic(
        lambda x, n: x >> n if n < 64 else 0, arity=2, takes="integer"
    ),
}
