"""Parts of recurrent cells as tensor expressions."""

from __future__ import annotations

from typing import Any

from autotune import te

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
    return te.compute(
        (1, *state.shape[1:]), lambda *_: te.const(0, state.dtype), name=name
    )
