"""Holds gradients of Tile functions against differences of their values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autotune.tile import Function, evaluate, gradient, parse, to_code
from autotune.tile.check.size_inputs import size_inputs
from support.tile_tools import bound, tensors


def check_gradient(
    code: str, arrays: Sequence[Any], wrt: Sequence[str] | None = None, step: float = 1e-6
) -> Function:
    """Compare the slopes in two random directions with what the gradient says; return it.

    The function is taken of float64, but for arrays of integers. No kink is to be within a step.
    """
    function = parse(code)
    names = [i.name.text for i in function.inputs]
    sizes = size_inputs(function)
    given = [a if n in sizes else _wide(a) for n, a in zip(names, arrays, strict=True)]
    known = {n: a for n, a in zip(names, given, strict=True) if n not in sizes}
    dtypes = {n: a.dtype.name for n, a in known.items()}
    made = gradient(function, wrt, dtypes_of=dtypes, ranks={n: a.ndim for n, a in known.items()})
    assert parse(to_code(made)) == made

    program = bound(function, *given)
    rng = np.random.default_rng(len(code))
    outer = [rng.normal(size=o.shape) for o in evaluate(program, *known.values())]
    slopes = gradients(made, *given, *outer)
    asked = [name.text.removeprefix("Grad") for name in made.outputs]
    positions = [names.index(name) for name in asked]
    for position, slope in zip(positions, slopes, strict=True):
        assert slope.shape == given[position].shape, (code, str(made))
    for _ in range(2):
        along = {p: rng.normal(size=given[p].shape) for p in positions}
        ends = []
        for sign in (1, -1):
            moved = [a + sign * step * along.get(p, 0) if p in along else a
                     for p, a in enumerate(given)]  # fmt: skip
            outputs = evaluate(program, *tensors(function, *moved))
            ends.append(sum((o * g).sum() for o, g in zip(outputs, outer, strict=True)))
        measured = (ends[0] - ends[1]) / (2 * step)
        said = sum((s * along[p]).sum() for p, s in zip(positions, slopes, strict=True))
        np.testing.assert_allclose(said, measured, rtol=1e-5, atol=1e-6, err_msg=f"{code}\n{made}")
    return made


def gradients(made: Function, *arrays: Any) -> tuple[Any, ...]:
    """Return what a gradient function computes of some arrays."""
    return evaluate(bound(made, *arrays), *tensors(made, *arrays))


def _wide(array: Any) -> Any:
    own = np.asarray(array)
    return own.astype("f8") if own.dtype.kind == "f" else own
