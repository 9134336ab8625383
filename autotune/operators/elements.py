"""Functions of elements as tensor expressions and in NumPy, for the operators that apply one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune import te
from autotune.ir import dtypes

Array = npt.NDArray[Any]

_ERF = np.vectorize(math.erf, otypes=[np.float64])


def widened(x: Array) -> Array:
    """Return an array in the type that its elements are computed in: halves in float32."""
    return x.astype(dtypes.accumulator(x.dtype.name))


def computed_in(wide: str, dtype: str, shape: Any, element: Callable[..., Any], name: str) -> Any:
    """Return a tensor whose elements are reduced in a wide type, and then are of another one.

    `wide`, `dtype`: type of what `element` returns, and type of the result.
    `shape`, `element`, `name`: as of `te.compute`.
    """
    if wide == dtype:
        return te.compute(shape, element, name=name)
    total = te.compute(shape, element, name=f"{name}.{wide}")
    return te.compute(shape, lambda *i: total(*i).astype(dtype), name=name)


def relu(x: Any) -> Any:
    """Return max(x, 0)."""
    return te.max(x, te.const(0, x.dtype))


def gelu(x: Any) -> Any:
    """Return x / 2 (1 + erf(x / sqrt(2))), the Gaussian error linear unit."""
    half, root = te.const(0.5, x.dtype), te.const(math.sqrt(0.5), x.dtype)
    return half * x * (te.const(1, x.dtype) + te.erf(x * root))


def relu_reference(x: Array) -> Array:
    """Return the same as `relu`, computed by NumPy."""
    return np.asarray(np.maximum(x, x.dtype.type(0)))


def gelu_reference(x: Array) -> Array:
    """Return the same as `gelu`, computed by NumPy."""
    error = np.asarray(_ERF(x * x.dtype.type(math.sqrt(0.5)))).astype(x.dtype)
    return np.asarray(x.dtype.type(0.5) * x * (x.dtype.type(1) + error))


# Functions after a layer, by name: of an expression, and of an array.
ACTIVATIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Array], Array]]] = {
    "": (lambda x: x, lambda x: x),
    "relu": (relu, relu_reference),
    "gelu": (gelu, gelu_reference),
}
