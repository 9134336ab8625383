"""Tuners by name."""

from __future__ import annotations

from collections.abc import Callable

from autotune.cost_model.base import FeatureSource
from autotune.errors import UsageError
from autotune.tuner.base import Tuner
from autotune.tuner.grid import GridTuner
from autotune.tuner.model import ModelTuner
from autotune.tuner.random import RandomTuner
from search_spaces.space import Space

TUNERS: dict[str, Callable[[Space, int, FeatureSource | None], Tuner]] = {
    "model": lambda space, seed, features: ModelTuner(space, seed, features),
    "random": lambda space, seed, _: RandomTuner(space, seed),
    "grid": lambda space, seed, _: GridTuner(space, seed),
}


def make_tuner(name: str, space: Space, seed: int, features: FeatureSource | None = None) -> Tuner:
    """Return a new tuner.

    Parameters
    ----------
    name : str
        One of :data:`TUNERS`.
    space : Space
        The space to search.
    seed : int
        Seed of every random choice, >= 0.
    features : FeatureSource, optional
        What a model reads of a candidate; the knob values by default.

    Raises
    ------
    UsageError
        If there is no tuner of this name.
    """
    make = TUNERS.get(name)
    if make is None:
        raise UsageError(f"unknown tuner {name!r}: expected one of {', '.join(sorted(TUNERS))}")
    return make(space, seed, features)
