"""Runs Tile code on arrays by its meaning, in one call."""

from __future__ import annotations

from typing import Any

import numpy as np

from autotune.tile import Function, Program, bind, evaluate, parse
from autotune.tile.check.size_inputs import size_inputs


def bound(code: str | Function, *arrays: Any) -> Program:
    """Return a function bound to some arrays' shapes and types, and to numbers that are sizes."""
    function = parse(code) if isinstance(code, str) else code
    given = dict(zip((i.name.text for i in function.inputs), arrays, strict=True))
    sizes = {name: given.pop(name) for name in size_inputs(function)}
    known = {name: np.asarray(array) for name, array in given.items()}
    shapes = {name: array.shape for name, array in known.items()}
    return bind(function, shapes, {name: a.dtype.name for name, a in known.items()}, sizes)


def tensors(code: str | Function, *arrays: Any) -> list[Any]:
    """Return the arrays among the inputs, without the numbers that are sizes."""
    function = parse(code) if isinstance(code, str) else code
    sizes = size_inputs(function)
    pairs = zip(function.inputs, arrays, strict=True)
    return [np.asarray(array) for i, array in pairs if i.name.text not in sizes]


def run(code: str, *arrays: Any) -> Any:
    """Return what a function computes of some arrays; a tuple for several outputs."""
    results = evaluate(bound(code, *arrays), *tensors(code, *arrays))
    return results[0] if len(results) == 1 else results


def floats(*shape: int, seed: int = 0) -> Any:
    """Return an array of float32 of both signs, far from 0."""
    rng = np.random.default_rng((seed, *shape))
    return (rng.choice([-1, 1], shape) * (0.5 + rng.random(shape))).astype(np.float32)
