"""A long short-term memory over all steps of sequences."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from autotune import te
from autotune.operators.elements import Array
from autotune.operators.operator_arguments import check_arguments
from autotune.operators.scans.rnn_cell import TYPES, product_flops, state_products, zeros
from autotune.template import template


def reference(x: Array, u: Array) -> tuple[Array, Array]:
    """Return the states H and C of all steps, both from 0."""
    h = np.zeros((len(x), *x.shape[2:]), x.dtype)
    c = np.zeros_like(h)
    for t in range(1, len(x)):
        enters, leaves, stays, given = x[t] + h[t - 1] @ u
        enters, leaves, stays = (1 / (1 + np.exp(-gate)) for gate in (enters, leaves, stays))
        c[t] = stays * c[t - 1] + enters * np.tanh(given)
        h[t] = leaves * np.tanh(c[t])
    return h, c


@template("lstm_cell", reference=reference, flops=partial(product_flops, 4))
def lstm_cell(steps: int, batch: int, units: int, dtype: str = "float32") -> list[Any]:
    """Compute the states H and C of a long short-term memory, both from 0.

    X is [steps, 4, batch, units], the inputs after multiplication with their weights, for the gates
    i, o, f and c, in the order of ONNX; U is [4, units, units], H and C are [steps, batch, units].
    With a = X[t] + H[t - 1] @ U and s the sigmoid, C[t] = s(a_f) C[t - 1] + s(a_i) tanh(a_c) and
    H[t] = s(a_o) tanh(C[t]).
    """
    check_arguments("lstm_cell", dtype, TYPES, steps=steps, batch=batch, units=units)
    shape = (steps, batch, units)
    X = te.placeholder((steps, 4, batch, units), dtype, name="X")
    U = te.placeholder((4, units, units), dtype, name="U")
    h, c = (te.placeholder(shape, dtype, name=name) for name in "hc")
    sums = state_products(h, U)

    def new(t: Any, i: Any, j: Any) -> tuple[Any, Any]:
        enters, leaves, stays, given = (X[t, g, i, j] + sums[t, g, i, j] for g in range(4))
        kept = te.sigmoid(stays) * c[t - 1, i, j] + te.sigmoid(enters) * te.tanh(given)
        return te.sigmoid(leaves) * te.tanh(kept), kept

    inits = [zeros(h, "first.h"), zeros(c, "first.c")]
    updates = te.compute(shape, new, name="new")
    return [X, U, *te.scan(inits, updates, [h, c], inputs=[X, U], name="S")]
