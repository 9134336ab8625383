"""Optuna's samplers as tuners; only this file imports Optuna.

The sampler proposes a position per knob. A proposal that violates a constraint or was made before
is refused, and the sampler proposes again; at last the nearest free configuration is taken.
"""

from __future__ import annotations

import math
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from autotune.errors import UsageError
from autotune.tuner.base import Observation, Tuner
from search_spaces.knob import Knob
from search_spaces.space import Space

# Class and settings of each sampler that can be named.
SAMPLERS: dict[str, tuple[str, dict[str, Any]]] = {
    "tpe": ("TPESampler", {"multivariate": True, "group": True}),
    "gp": ("GPSampler", {"deterministic_objective": True}),
    "cmaes": ("CmaEsSampler", {}),
    "nsgaii": ("NSGAIISampler", {"population_size": 20}),
    "qmc": ("QMCSampler", {}),
    "random": ("RandomSampler", {}),
}

_NEEDS = {"gp": "torch", "cmaes": "cmaes", "qmc": "scipy"}  # Packages that a sampler needs, too.
_ONE_OBJECTIVE = ("cmaes",)  # Samplers that cannot minimise two things.
REFUSALS = 8  # Proposals refused in a row before the nearest free configuration is taken.
NEAREST_OF = 4096  # Free configurations among which the nearest is looked for.

# Something else to minimise, known before a candidate is measured, such as its shared memory.
SecondObjective = Callable[[int], float]


def check_sampler(name: str) -> None:
    """Raise UsageError unless the sampler is known and its packages are installed."""
    if name not in SAMPLERS:
        raise UsageError(
            f"unknown Optuna sampler {name!r}: expected one of {', '.join(sorted(SAMPLERS))}"
        )
    import importlib.util

    needed = _NEEDS.get(name)
    if needed is not None and importlib.util.find_spec(needed) is None:
        raise UsageError(
            f"tuner optuna:{name} needs the package {needed}: pip install {needed}, "
            "or choose optuna:tpe"
        )


class OptunaTuner(Tuner):
    """Lets an Optuna sampler search the space; constraints hold, and nothing is proposed twice.

    `sampler`: one of :data:`SAMPLERS`.
    `second`: a second objective to minimise beside the time, a function of a candidate's index.
    `storage`: URL of an Optuna storage, such as ``sqlite:///run.db``: every trial is mirrored there
    as it happens, so that a dashboard shows the run. In memory by default.

    Raises UsageError if the sampler is unknown, lacks a package, or the storage cannot be used.
    """

    def __init__(
        self,
        space: Space,
        seed: int,
        sampler: str = "tpe",
        second: SecondObjective | None = None,
        storage: str | None = None,
    ) -> None:
        super().__init__(space, seed)
        check_sampler(sampler)
        if second is not None and sampler in _ONE_OBJECTIVE:
            raise UsageError(
                f"Optuna's sampler {sampler!r} takes one objective: choose 'nsgaii' for two"
            )
        self._second = second
        with _quiet():
            # The Optuna study that holds the trials.
            self.study = _make_study(sampler, seed, second is not None, storage)
            self._distributions = _distributions(space)
        self._running: dict[int, Any] = {}

    def pareto(self) -> list[Observation]:
        """Return the Pareto front of time and second objective.

        It is ordered by time. With one objective it is the best observation.
        """
        front: list[Observation] = []
        least: list[float] | None = None
        for observation in self.working:
            other = self._seconds(observation.index)
            if least is None or other < least:
                front.append(observation)
                least = other
        return front

    def tell(self, observations: Iterable[Observation]) -> None:
        """Take in measurements, and tell the study of them; see :meth:`Tuner.tell`."""
        new = sorted(observations, key=lambda o: o.order)
        super().tell(new)
        with _quiet():
            for index in sorted({o.index for o in new}):
                self._finish(self._told[index])

    def _finish(self, observation: Observation) -> None:
        trial = self._running.pop(observation.index, None)
        if trial is None:
            if observation.ok:
                self.study.add_trial(self._foreign(observation))
        elif observation.ok:
            self.study.tell(trial, self._values(observation))
        else:
            trial.set_user_attr("error", observation.error or "no time")
            self._refuse(trial)

    def _values(self, observation: Observation) -> list[float]:
        return [1.0 / observation.throughput, *self._seconds(observation.index)]

    def _seconds(self, index: int) -> list[float]:
        """Return a candidate's second objective, if there is one."""
        if self._second is None:
            return []
        value = float(self._second(index))
        if math.isnan(value):
            raise UsageError(f"the second objective of {self.space.config(index)} is not a number")
        return [value]

    def _foreign(self, observation: Observation) -> Any:
        """Return a finished trial for a measurement that nobody asked for."""
        import optuna

        return optuna.trial.create_trial(
            params=self._params(observation.index),
            distributions=self._distributions,
            values=self._values(observation),
            user_attrs={"index": observation.index},
        )

    def _refuse(self, trial: Any) -> None:
        import optuna

        # A pruned trial counts as a bad one; a study with two objectives knows failed ones only.
        state = optuna.trial.TrialState
        self.study.tell(trial, state=state.PRUNED if self._second is None else state.FAIL)

    def _propose(self, n: int) -> list[int]:
        picked: list[int] = []
        with _quiet():
            while len(picked) < n:
                found = self._one()
                if found is None:
                    break
                self._seen.add(found)
                picked.append(found)
        return picked

    def _one(self) -> int | None:
        """Return the next candidate and keep its trial; None where nothing is free."""
        index = -1
        for _ in range(REFUSALS):
            trial = self.study.ask(self._distributions)
            index = self._index(trial.params)
            if index not in self._seen and bool(self.space.feasible([index])[0]):
                return self._keep(trial, index)
            trial.set_user_attr("refused", "seen" if index in self._seen else "infeasible")
            self._refuse(trial)
        nearest = self._nearest_free(index)
        if nearest is None:
            return None
        self.study.enqueue_trial(self._params(nearest))
        return self._keep(self.study.ask(self._distributions), nearest)

    def _keep(self, trial: Any, index: int) -> int:
        trial.set_user_attr("index", index)
        self._running[index] = trial
        return index

    def _nearest_free(self, index: int) -> int | None:
        free = self._sample(NEAREST_OF, self._generator())
        if not free:
            return None
        (here,) = self._knobs.positions([index])
        distances = self._knobs.distance(here, self._knobs.positions(free))
        return min(zip(distances.tolist(), free, strict=True))[1]

    def _index(self, params: Mapping[str, int]) -> int:
        positions = [_order(knob)[params[knob.name]] for knob in self.space.knobs]
        return int(self.space.indices_of(np.array([positions], dtype=np.int64))[0])

    def _params(self, index: int) -> dict[str, int]:
        (positions,) = self.space.positions([index]).tolist()
        return {
            knob.name: _order(knob).index(position)
            for knob, position in zip(self.space.knobs, positions, strict=True)
        }


def _order(knob: Knob) -> list[int]:
    """Return a knob's positions in order of value, if it is one number; as they are otherwise."""
    if knob.numeric and len(knob.tables) == 1:
        (column,) = knob.tables.values()
        return [int(position) for position in np.argsort(column, kind="stable")]
    return list(range(len(knob)))


def _distributions(space: Space) -> dict[str, Any]:
    from optuna.distributions import CategoricalDistribution, IntDistribution

    return {
        knob.name: IntDistribution(0, len(knob) - 1)
        if knob.numeric
        else CategoricalDistribution(list(range(len(knob))))
        for knob in space.knobs
    }


def _make_study(sampler: str, seed: int, two: bool, storage: str | None) -> Any:
    import optuna
    from sqlalchemy.exc import SQLAlchemyError  # what Optuna's storages raise

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    name, settings = SAMPLERS[sampler]
    try:
        return optuna.create_study(
            sampler=getattr(optuna.samplers, name)(seed=seed, **settings),
            directions=["minimize"] * (2 if two else 1),
            storage=None if storage is None else _open_storage(storage),
            load_if_exists=False,
        )
    except (ValueError, ImportError, optuna.exceptions.OptunaError, SQLAlchemyError) as error:
        raise UsageError(f"cannot make an Optuna study: {_first_line(error)}") from error


def _open_storage(url: str) -> Any:
    """Return a storage whose connections are closed when nobody uses it any more.

    Optuna leaves that to the garbage collector, at which Python 3.13 warns.
    """
    import optuna

    storage = optuna.storages.RDBStorage(url)
    weakref.finalize(storage, storage.engine.dispose)
    return storage


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Optuna's remarks about experimental samplers and fixed parameters to itself.

    A storage that fails on the way, as when its file vanishes, is the user's to mend.
    """
    import optuna
    from sqlalchemy.exc import SQLAlchemyError

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        except (optuna.exceptions.OptunaError, SQLAlchemyError) as error:
            raise UsageError(f"Optuna's storage failed: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    """Return the error without the database's advice on how to look it up."""
    inner = error.__cause__ or error
    return str(getattr(inner, "orig", None) or inner).split("\n")[0]
