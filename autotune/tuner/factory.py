"""Tuners by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from autotune.cost_model.base import CostModel, FeatureSource
from autotune.errors import UsageError
from autotune.system.words import did_you_mean
from autotune.tuner.base import Tuner
from autotune.tuner.model.model_tuner import ModelTuner, default_model
from autotune.tuner.model.transfer import TransferPrior
from autotune.tuner.search.genetic import GeneticTuner
from autotune.tuner.search.grid import GridTuner
from autotune.tuner.search.local import LocalTuner
from autotune.tuner.search.optuna import SAMPLERS, OptunaTuner, check_sampler
from autotune.tuner.search.random import RandomTuner
from search_spaces.space import Space

OPTUNA = "optuna:"  # What the names of Optuna's samplers begin with.


@dataclass(frozen=True)
class TunerInputs:
    """What a tuner is made from; see :func:`make_tuner`."""

    space: Space
    seed: int
    features: FeatureSource | None
    prior: TransferPrior | None
    storage: str | None
    make_model: Callable[[int], CostModel]


def _optuna(sampler: str) -> Callable[[TunerInputs], Tuner]:
    return lambda given: OptunaTuner(given.space, given.seed, sampler, storage=given.storage)


# Makes each tuner that can be named.
TUNERS: dict[str, Callable[[TunerInputs], Tuner]] = {
    "model": lambda g: ModelTuner(g.space, g.seed, g.features, g.prior, g.make_model),
    "random": lambda g: RandomTuner(g.space, g.seed),
    "grid": lambda g: GridTuner(g.space, g.seed),
    "genetic": lambda g: GeneticTuner(g.space, g.seed),
    "local": lambda g: LocalTuner(g.space, g.seed),
    **{f"{OPTUNA}{sampler}": _optuna(sampler) for sampler in SAMPLERS},
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
    prior : TransferPrior, optional
        What other measurements say of this space; only the model tuner uses it.
    storage : str, optional
        URL of an Optuna storage that mirrors the trials; for Optuna's samplers only.
    make_model : callable
        Makes the model tuner's untrained cost model from a seed.

    Raises
    ------
    UsageError
        If there is no tuner of this name, it lacks a package, or cannot use what is given.
    """
    check_tuner(name, prior is not None, storage is not None)
    return TUNERS[name](TunerInputs(space, seed, features, prior, storage, make_model))
