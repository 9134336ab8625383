"""Runs Tile code on arrays by its meaning, in one call."""

from __future__ import annotations

from typing import Any

import numpy as np

from autotune.tile import Program, bind, evaluate, parse


def bound(code: str, *arrays: Any) -> Program:
    """Return a function bound to some arrays' shapes and types."""
    function = parse(code)
    given = dict(zip((i.name.text for i in function.inputs), map(np.asarray, arrays), strict=True))
    shapes = {name: array.shape for name, array in given.items()}
    return bind(function, shapes, {name: array.dtype.name for name, array in given.items()})


def run(code: str, *arrays: Any) -> Any:
    """Return what a function computes of some arrays; a tuple for several outputs."""
    results = evaluate(bound(code, *arrays), *arrays)
    return results[0] if len(results) == 1 else results


def floats(*shape: int, seed: int = 0) -> Any:
    """Return an array of float32 of both signs, far from 0."""
    rng = np.random.default_rng((seed, *shape))
    return (rng.choice([-1, 1], shape) * (0.5 + rng.random(shape))).astype(np.float32)
