"""A recurrent cell over all steps of sequences."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune import te
from autotune.operators.operator_arguments import check_arguments
from autotune.template import template

TYPES = ("float32", "float64")


def product_flops(gates: int, steps: int, batch: int, units: int, **_: Any) -> float:
    """Return the operations of the products with the state, for some gates."""
    return 2.0 * gates * (steps - 1) * batch * units * units


def state_products(h: Any, U: Any) -> Any:
    """Return h[t - 1] @ U[g] for each gate g, a tensor (steps, gates, batch, units)."""
    steps, batch, units = h.shape
    k = te.reduce_axis((0, units), name="k")
    return te.compute(
        (steps, U.shape[0], batch, units),
        lambda t, g, i, j: te.sum(h[t - 1, i, k] * U[g, k, j], axis=k),
        name="U.h",
    )


def zeros(state: Any, name: str) -> Any:
    """Return the first step of a state: zeros."""
    return te.compute((1, *state.shape[1:]), lambda *_: te.const(0, state.dtype), name=name)


def reference(x: npt.NDArray[Any], u: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the states of all steps, from 0."""
    h = np.zeros((len(x), *x.shape[2:]), x.dtype)
    for t in range(1, len(x)):
        h[t] = np.tanh(x[t, 0] + h[t - 1] @ u[0])
    return h


@template("rnn_cell", reference=reference, flops=partial(product_flops, 1))
def rnn_cell(steps: int, batch: int, units: int, dtype: str = "float32") -> list[Any]:
    """H[t] = tanh(X[t] + H[t - 1] @ U), from H[0] = 0.

    X is [steps, 1, batch, units], the inputs after multiplication with their weights; U is [1,
    units, units] and H [steps, batch, units].
    """
    check_arguments("rnn_cell", dtype, TYPES, steps=steps, batch=batch, units=units)
    shape = (steps, batch, units)
    X = te.placeholder((steps, 1, batch, units), dtype, name="X")
    U = te.placeholder((1, units, units), dtype, name="U")
    h = te.placeholder(shape, dtype, name="h")
    sums = state_products(h, U)
    new = te.compute(shape, lambda t, i, j: te.tanh(X[t, 0, i, j] + sums[t, 0, i, j]), name="new")
    return [X, U, te.scan(zeros(h, "first"), new, h, inputs=[X, U], name="H")]
