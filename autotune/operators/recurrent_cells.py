"""Recurrent cells as tensor expressions: products with the state, then functions of elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune import te

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class RecurrentCell:
    """A scan over steps of a batch of units.

    Attributes
    ----------
    inputs, outputs : tuple of Tensor
        Of the function; the outputs are the scan's.
    inits : tuple of Tensor
        Zeros, one for each state.
    update : Tensor
        A state at a step; all are one operation, (steps, batch, units).
    sums : Tensor
        The products with the state before, (steps, gates, batch, units).
    k : IterVar
        What they reduce over.
    """

    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    inits: tuple[Any, ...]
    update: Any
    sums: Any
    k: Any

    @property
    def scan(self) -> Any:
        """One of the scan's results, which stands for its stage."""
        return self.outputs[0]


def _products(h: Any, U: Any, gates: int) -> tuple[Any, Any]:
    """Return h[t - 1] @ U[g] for each gate, and the axis that is reduced over."""
    m, b, n = h.shape
    k = te.reduce_axis((0, n), name="k")
    sums = te.compute(
        (m, gates, b, n), lambda t, g, i, j: te.sum(h[t - 1, i, k] * U[g, k, j], axis=k), name="U.h"
    )
    return sums, k


def _zeros(b: int, n: int, dtype: str, name: str) -> Any:
    return te.compute((1, b, n), lambda _, i, j: te.const(0, dtype), name=name)


def rnn(steps: int, batch: int, units: int, dtype: str) -> RecurrentCell:
    """Return the cell h[t] = tanh(X[t] + h[t - 1] @ U), from h[0] = 0."""
    shape = (steps, batch, units)
    X = te.placeholder((steps, 1, batch, units), dtype, name="X")
    U = te.placeholder((1, units, units), dtype, name="U")
    h = te.placeholder(shape, dtype, name="h")
    sums, k = _products(h, U, 1)
    update = te.compute(
        shape, lambda t, i, j: te.tanh(X[t, 0, i, j] + sums[t, 0, i, j]), name="new"
    )
    init = _zeros(batch, units, dtype, "first")
    H = te.scan(init, update, h, inputs=[X, U], name="H")
    return RecurrentCell((X, U), (H,), (init,), update, sums, k)


def lstm(steps: int, batch: int, units: int, dtype: str) -> RecurrentCell:
    """Return a cell with the states h and c, from 0, and gates i, f, g and o."""
    shape = (steps, batch, units)
    X = te.placeholder((steps, 4, batch, units), dtype, name="X")
    U = te.placeholder((4, units, units), dtype, name="U")
    h, c = (te.placeholder(shape, dtype, name=name) for name in "hc")
    sums, k = _products(h, U, 4)

    def new(t: Any, i: Any, j: Any) -> tuple[Any, Any]:
        enters, stays, given, leaves = (X[t, g, i, j] + sums[t, g, i, j] for g in range(4))
        kept = te.sigmoid(stays) * c[t - 1, i, j] + te.sigmoid(enters) * te.tanh(given)
        return te.sigmoid(leaves) * te.tanh(kept), kept

    updates = te.compute(shape, new, name="new")
    inits = [_zeros(batch, units, dtype, f"first.{name}") for name in "hc"]
    H, C = te.scan(inits, updates, [h, c], inputs=[X, U], name="S")
    return RecurrentCell((X, U), (H, C), tuple(inits), updates[0], sums, k)


def rnn_reference(x: Array, u: Array) -> Array:
    """Return what `rnn` computes."""
    h = np.zeros((len(x), *x.shape[2:]), x.dtype)
    for t in range(1, len(x)):
        h[t] = np.tanh(x[t, 0] + h[t - 1] @ u[0])
    return h


def lstm_reference(x: Array, u: Array) -> tuple[Array, Array]:
    """Return what `lstm` computes."""
    h = np.zeros((len(x), *x.shape[2:]), x.dtype)
    c = np.zeros_like(h)
    for t in range(1, len(x)):
        enters, stays, given, leaves = x[t] + h[t - 1] @ u
        enters, stays, leaves = (1 / (1 + np.exp(-gate)) for gate in (enters, stays, leaves))
        c[t] = stays * c[t - 1] + enters * np.tanh(given)
        h[t] = leaves * np.tanh(c[t])
    return h, c
