"""The options of `tune`, `tune_job` and `autotuned`: their types, their checks, and the request."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path
from typing import Any

from autotune.cost_model.find_cost_model import XGBOOST, CostModelChoice, find_cost_model
from autotune.errors import UsageError
from autotune.fleet.fleet import Fleet
from autotune.fleet.fleet_measurer import COMPARE_ON, ONE
from autotune.fleet.kinds import EACH
from autotune.measure.custom_measurer import LOCAL, MeasurerChoice, find_measurer
from autotune.measure.timing_policy import TimingPolicy
from autotune.system.plugins import name_of, names_place
from autotune.system.words import did_you_mean
from autotune.task.task import Task
from autotune.tuner.factory import OPTUNA, TunerChoice, check_tuner, estimates_gain
from autotune.tuner.run.events import EventCallback
from autotune.tuner.run.limits import BATCH, TRIALS, Goal, Limits, parse_duration
from autotune.tuner.run.task_features import LOOPS, FeaturesChoice, find_features
from autotune.tuner.run.tuning_job import TuningRequest
from records import RecordError, RecordStore
from records.log_set import PRETUNED, log_name

_MOST = 1e6  # Seconds of a time-out: the system limits it, too.


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """What `tune_job` takes for all workloads together; UsageError if an option makes no sense."""

    time: float | str | None = None
    seed: int | None = None
    callbacks: Sequence[EventCallback] | EventCallback = ()
    progress: bool | None = None
    fleet: str | None = None

    def __post_init__(self) -> None:
        _ = self.time_s
        if self.seed is not None and (type(self.seed) is not int or self.seed < 0):
            raise UsageError(f"seed must be a whole number >= 0, not {self.seed!r}")
        calls = self.calls
        if not isinstance(calls, Sequence) or not all(map(callable, calls)):
            raise UsageError(f"callbacks must be functions of an event, not {calls!r}")
        check_type("fleet", self.fleet, (str,), "the address of a cluster of Ray")
        self.make_fleet()
        if not isinstance(self.progress, bool | None):
            raise UsageError(f"progress must be True, False or None, not {self.progress!r}")

    @property
    def time_s(self) -> float | None:
        """Seconds after which no measurement begins; None if that is not limited."""
        time = self.time
        try:
            if time is None or isinstance(time, str):
                return None if time is None else parse_duration(time)
            if not isinstance(time, bool) and 0 < time < float("inf"):
                return float(time)
        except (TypeError, UsageError):
            pass
        raise UsageError(f"time must be seconds > 0, or text such as '30m', not {time!r}")

    def make_fleet(self) -> Fleet | None:
        """Return what the workloads share, not connected yet; None if there is no fleet."""
        if self.fleet is None:
            return None
        try:
            return Fleet.parse(self.fleet)
        except UsageError as error:
            said = str(error)
            raise UsageError(f"fleet {said}" if said.startswith("must ") else said) from error

    @property
    def calls(self) -> Sequence[EventCallback]:
        """What is called with events."""
        return [self.callbacks] if callable(self.callbacks) else self.callbacks


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """How one workload is searched and measured, as `tune_job` explains it.

    UsageError if an option makes no sense.
    """

    trials: int | None = None
    tuner: TunerChoice = "model"
    until: str | None = None
    patience: float | None = None
    batch: int = BATCH
    transfer: str | PathLike[str] | Sequence[str | PathLike[str]] = ()
    timeout: float = 10.0
    policy: TimingPolicy | None = None
    any_device: bool = False
    storage: str | None = None
    cost_model: CostModelChoice = XGBOOST
    features: FeaturesChoice = LOOPS
    measurer: MeasurerChoice = LOCAL
    devices: str | None = None
    compare_on: str = ONE

    def __post_init__(self) -> None:
        check_type("until", self.until, (str,), "text such as '0.9 of peak'")
        check_type("policy", self.policy, (TimingPolicy,), "a TimingPolicy")
        check_type("storage", self.storage, (str,), "the URL of a storage")
        check_type("devices", self.devices, (str,), "part of a name, 'any' or 'each'")
        if self.compare_on not in COMPARE_ON:
            raise UsageError(f"compare_on must be one or all, not {self.compare_on!r}")
        for option in ("tuner", "cost_model", "features", "measurer"):
            choice = getattr(self, option)
            if not isinstance(choice, str) and not callable(choice):
                raise UsageError(f"{option} must be a name, a class or a function, not {choice!r}")
        if not isinstance(self.any_device, bool):
            raise UsageError(f"any_device must be True or False, not {self.any_device!r}")
        if self.trials is not None:
            _check_whole("trials", self.trials, 0)
        _check_whole("batch", self.batch, 1)
        check_number("timeout", self.timeout)
        if self.patience is not None:
            check_number("patience", self.patience)
        logs = self.logs
        if not isinstance(logs, Sequence) or not all(isinstance(p, str | PathLike) for p in logs):
            raise UsageError(f"transfer must be paths of logs, not {logs!r}")
        self.limits(is_timed=False)

    @property
    def logs(self) -> Sequence[str | PathLike[str]]:
        """Logs of other workloads to learn from."""
        is_one = isinstance(self.transfer, str | PathLike)
        return [self.transfer] if is_one else self.transfer  # type: ignore[list-item,return-value]

    def limits(self, is_timed: bool) -> Limits:
        """Return when its tuning ends.

        `is_timed`: whether the time of the run is limited.
        """
        wanted = TRIALS if self.trials is None and not is_timed else self.trials
        goal = None if self.until is None else Goal.parse(self.until)
        return Limits(wanted, goal, self.patience, self.batch)

    def check_parts(self, by_place: bool = True) -> None:
        """Raise UsageError unless there are its tuner, cost model, features and measurer.

        `by_place`: load those of modules and files, too.
        """
        is_builtin = name_of(self.tuner).startswith(OPTUNA)
        if by_place or is_builtin or not names_place(self.tuner):
            check_tuner(self.tuner, bool(self.logs), self.storage is not None)
            if self.patience is not None and not estimates_gain(self.tuner):
                raise UsageError(
                    "patience needs a tuner that estimates its gain: use the tuner 'model'"
                )
        for find, choice in (
            (find_cost_model, self.cost_model),
            (find_features, self.features),
            (find_measurer, self.measurer),
        ):
            if by_place or not names_place(choice):
                find(choice)

    def request(
        self,
        task: Task,
        store: RecordStore,
        is_timed: bool,
        weight: float,
        fleet: Fleet | None,
    ) -> TuningRequest:
        """Return the request to tune a task, without a label."""
        return TuningRequest(
            task,
            store,
            self.limits(is_timed),
            self.policy or TimingPolicy(),
            float(self.timeout),
            self.tuner,
            self.logs,
            self.storage,
            self.any_device,
            weight,
            cost_model=self.cost_model,
            features=self.features,
            measurer=self.measurer,
            fleet=fleet,
            devices=self.devices,
            compare_on=self.compare_on,
        )


JOB = tuple(field.name for field in fields(JobOptions))
SEARCH = tuple(field.name for field in fields(SearchOptions))


def check_options(options: Mapping[str, Any], where: str, others: Collection[str] = ()) -> None:
    """Raise UsageError, which begins with `where`, unless `tune` takes some options.

    What another module or file defines is not loaded for that.

    others: what the caller takes beside them.
    """
    check_names(options, {*JOB, *SEARCH, *others}, where)
    check_one_result(options, where)
    with errors_in(where):
        JobOptions(**{name: options[name] for name in JOB if name in options})
        search = SearchOptions(**{name: options[name] for name in SEARCH if name in options})
        search.check_parts(by_place=False)


def check_one_result(options: Mapping[str, Any], where: str) -> None:
    """Raise UsageError, which begins with `where`, if options ask for several results."""
    if options.get("devices") == EACH:
        raise UsageError(
            f"{where}: there is one result for each kind of device: call "
            "tune_job([{'what': ..., 'devices': 'each'}], fleet=...), which returns all of them"
        )


def check_names(given: Mapping[str, Any], known: Collection[str], where: str) -> None:
    """Raise UsageError, which begins with `where`, if a name is not known."""
    for name in given:
        if name not in known:
            said = did_you_mean(str(name), sorted(known), "known are")
            if name in JOB:  # of several workloads
                said = f"{name} is for all workloads together: give it beside them"
            raise UsageError(f"{where}: there is no argument {name!r}; {said}")


def log_path(log: str | PathLike[str] | None, template: str) -> str | Path:
    """Return where measurements of a template go, by the argument `log`: a path, or PRETUNED.

    UsageError if it is no path.
    """
    if log is None:
        return Path(log_name(template)).absolute()
    path = os.fspath(log) if isinstance(log, PathLike) else log
    check_type("log", path, (str,), "the path of a file")
    if not path:
        raise UsageError(f"log is empty: give the name of a file, such as {log_name(template)}")
    return PRETUNED if log == PRETUNED else Path(path).absolute()


@contextlib.contextmanager
def errors_in(where: str) -> Iterator[None]:
    """Let the message of a user's mistake begin with where it was made."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error
    except RecordError as error:
        raise RecordError(f"{where}: {error}") from error


def check_type(name: str, value: object, types: tuple[type, ...], expected: str) -> None:
    """Raise UsageError if a value that is given has none of some types."""
    if value is not None and not isinstance(value, types):
        raise UsageError(f"{name} must be {expected}, not {value!r}")


def check_number(name: str, value: object) -> None:
    """Raise UsageError unless a value is a number > 0, and not huge."""
    if type(value) not in (int, float) or not 0 < value <= _MOST:  # type: ignore[operator]
        raise UsageError(f"{name} must be a number > 0, not {value!r}")


def _check_whole(name: str, value: object, least: int) -> None:
    if type(value) is not int or value < least:
        raise UsageError(f"{name} must be a whole number >= {least}, not {value!r}")
