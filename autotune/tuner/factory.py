"""Tuners by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from autotune.cost_model.base import CostModel, FeatureSource
from autotune.errors import UsageError
from autotune.system.words import did_you_mean
from autotune.tuner.base import Tuner
from autotune.tuner.model.model_tuner import ModelTuner, default_model
from autotune.tuner.model.transfer import TransferPrior
from autotune.tuner.search.baselines import GridTuner, RandomTuner
from autotune.tuner.search.genetic import GeneticTuner
from autotune.tuner.search.local import LocalTuner
from autotune.tuner.search.optuna import SAMPLERS, OptunaTuner, check_sampler
from search_spaces.space import Space

OPTUNA = "optuna:"  # What the names of Optuna's samplers begin with.


# Makes each tuner that can be named, of a space and a seed, and for some of more.
TUNERS: dict[str, Callable[..., Tuner]] = {
    "model": ModelTuner,
    "random": RandomTuner,
    "grid": GridTuner,
    "genetic": GeneticTuner,
    "local": LocalTuner,
    **{f"{OPTUNA}{sampler}": partial(OptunaTuner, sampler=sampler) for sampler in SAMPLERS},
}


def check_tuner(name: str, prior: bool = False, storage: bool = False) -> None:
    """Raise UsageError, with advice, unless there is a tuner of this name that can run here.

    `prior` and `storage` say that it is to use one.
    """
    if name not in TUNERS:
        raise UsageError(f"unknown tuner {name!r}: {did_you_mean(name.lower(), TUNERS)}")
    if name.startswith(OPTUNA):
        check_sampler(name.removeprefix(OPTUNA))
    if prior and name != "model":
        raise UsageError(f"tuner {name!r} cannot learn from other logs: only the model tuner can")
    if storage and not name.startswith(OPTUNA):
        raise UsageError(f"tuner {name!r} does not use a storage: choose {OPTUNA}tpe")


def make_tuner(
    name: str,
    space: Space,
    seed: int,
    features: FeatureSource | None = None,
    prior: TransferPrior | None = None,
    storage: str | None = None,
    make_model: Callable[[int], CostModel] = default_model,
) -> Tuner:
    """Return a new tuner.

    `name`: one of :data:`TUNERS`.
    `space`: the space to search.
    `seed`: seed of every random choice, >= 0.
    `features`: what a model reads of a candidate; the knob values by default.
    `prior`: what other measurements say of this space; only the model tuner uses it.
    `storage`: URL of an Optuna storage that mirrors the trials; for Optuna's samplers only.
    `make_model`: makes the model tuner's untrained cost model from a seed.

    Raises UsageError if there is no tuner of this name, it lacks a package, or cannot use what is
    given.
    """
    check_tuner(name, prior is not None, storage is not None)
    more: dict[str, Any] = {}
    if name == "model":
        more = {"features": features, "prior": prior, "make_model": make_model}
    elif name.startswith(OPTUNA):
        more = {"storage": storage}
    return TUNERS[name](space, seed, **more)
