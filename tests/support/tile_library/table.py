"""A table of Tile functions, what they mean and inputs for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

LIBRARY: dict[str, LibraryFunction] = {}


@dataclass(frozen=True)
class LibraryFunction:
    """A Tile function, inputs for it, what it means, and the inputs it is differentiated by."""

    code: str
    inputs: tuple[Any, ...]
    meaning: Callable[..., Any]
    wrt: tuple[str, ...] = ()


def case(
    name: str, code: str, inputs: tuple[Any, ...], meaning: Callable[..., Any], wrt: str = ""
) -> None:
    """Add a function to the table; `wrt` are names of inputs."""
    assert name not in LIBRARY
    LIBRARY[name] = LibraryFunction(code, inputs, meaning, tuple(wrt.split()))


def positive(*shape: int, seed: int = 0) -> Any:
    """Return float32 between 0.1 and 0.9."""
    return np.random.default_rng((seed, *shape)).uniform(0.1, 0.9, shape).astype("f4")


def whole(low: int, high: int, *shape: int, dtype: str = "int32") -> Any:
    """Return integers from `low` to `high`."""
    rng = np.random.default_rng((high, *shape))
    return rng.integers(low, high, shape, endpoint=True).astype(dtype)


def random_state(seed: int = 0) -> Any:
    """Return a state of the 2048 generators of `prng_step`."""
    rng = np.random.default_rng(seed)
    return rng.integers(16, 2**32, (3, 2048)).astype("u4")
