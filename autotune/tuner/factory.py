"""Tuners: the built-in ones by name, those of users by name, by place or as objects."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from autotune.cost_model.base import CostModel, FeatureSource
from autotune.cost_model.xgboost_model import XGBCostModel
from autotune.errors import UsageError
from autotune.system.plugins import find_maker, name_of
from autotune.system.words import did_you_mean
from autotune.tuner.base import Tuner
from autotune.tuner.custom_tuner import CustomTuner
from autotune.tuner.model.model_tuner import ModelTuner
from autotune.tuner.model.transfer import TransferPrior
from autotune.tuner.search.baselines import GridTuner, RandomTuner
from autotune.tuner.search.genetic import GeneticTuner
from autotune.tuner.search.local import LocalTuner
from autotune.tuner.search.optuna import SAMPLERS, OptunaTuner, check_sampler
from search_spaces.space import Space

OPTUNA = "optuna:"  # What the names of Optuna's samplers begin with.

#: A name, ``module:name``, ``path/to/file.py:name``, or what makes one of a space and a seed.
TunerChoice = str | Callable[..., Any]

# Makes each tuner that is built in, of a space and a seed, and for some of more.
TUNERS: dict[str, Callable[..., Tuner]] = {
    "model": ModelTuner,
    "random": RandomTuner,
    "grid": GridTuner,
    "genetic": GeneticTuner,
    "local": LocalTuner,
    **{f"{OPTUNA}{sampler}": partial(OptunaTuner, sampler=sampler) for sampler in SAMPLERS},
}


def find_tuner(tuner: TunerChoice) -> Callable[..., Any]:
    """Return what makes a tuner; UsageError if there is none of this name."""
    if isinstance(tuner, str) and tuner.startswith(OPTUNA) and tuner not in TUNERS:
        raise UsageError(f"unknown tuner {tuner!r}: {did_you_mean(tuner.lower(), TUNERS)}")
    return find_maker("tuner", tuner, TUNERS)


def estimates_gain(tuner: TunerChoice) -> bool:
    """Whether a tuner estimates what further measurements would gain.

    UsageError if there is no tuner of this name.
    """
    return bool(getattr(find_tuner(tuner), "estimates_gain", False))


def check_tuner(tuner: TunerChoice, prior: bool = False, storage: bool = False) -> None:
    """Raise UsageError, with advice, unless there is such a tuner and it can run here.

    `prior`, `storage`: whether the tuner must be able to use one.
    """
    find_tuner(tuner)
    name = name_of(tuner)
    optuna = name.startswith(OPTUNA)
    if optuna:
        check_sampler(name.removeprefix(OPTUNA))
    if prior and name != "model":
        raise UsageError(f"tuner {name!r} cannot learn from other logs: only the model tuner can")
    if storage and not optuna:
        raise UsageError(f"tuner {name!r} does not use a storage: choose {OPTUNA}tpe")


def make_tuner(
    tuner: TunerChoice,
    space: Space,
    seed: int = 0,
    features: FeatureSource | None = None,
    prior: TransferPrior | None = None,
    storage: str | None = None,
    make_model: Callable[[int], CostModel] = XGBCostModel,
) -> Tuner:
    """Return a new tuner.

    `tuner`: one of :data:`TUNERS`, or one of a user, see `CustomTuner`.
    `space`: the space to search.
    `seed`: seed of every random choice, >= 0.
    `features`: what a model reads of a candidate; the knob values by default.
    `prior`: a prediction from other measurements; only the model tuner uses it.
    `storage`: URL of an Optuna storage that mirrors the trials; for Optuna's samplers only.
    `make_model`: makes the model tuner's untrained cost model from a seed.

    Raises UsageError if there is no such tuner, it lacks a package, or cannot use what is given.
    """
    check_tuner(tuner, prior is not None, storage is not None)
    if not (isinstance(tuner, str) and tuner in TUNERS):
        return CustomTuner(find_tuner(tuner), name_of(tuner), space, seed, features)
    more: dict[str, Any] = {}
    if tuner == "model":
        more = {"features": features, "prior": prior, "make_model": make_model}
    elif tuner.startswith(OPTUNA):
        more = {"storage": storage}
    return TUNERS[tuner](space, seed, **more)
