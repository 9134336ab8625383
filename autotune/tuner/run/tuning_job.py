"""Tunes workloads as asked: what `autotune run`, `autotune.tune` and builds have in common."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike

from autotune.cost_model.base import CostModel
from autotune.cost_model.find_cost_model import XGBOOST, CostModelChoice, find_cost_model
from autotune.cost_model.xgboost_model import XGBCostModel, load_alone
from autotune.errors import UsageError
from autotune.fleet.fleet import Fleet
from autotune.fleet.fleet_measurer import ONE, FleetMeasurer
from autotune.fleet.kinds import EACH, Wanted
from autotune.measure.custom_measurer import LOCAL, CustomMeasurer, MeasurerChoice, find_measurer
from autotune.measure.local_measurer import LocalMeasurer
from autotune.measure.measurer import Measurer
from autotune.measure.pool.fork_server_client import ForkServerProcess
from autotune.measure.timing_policy import TimingPolicy
from autotune.reuse.valid_records import least_costs
from autotune.system.user_modules import refuse_while_loading
from autotune.task.task import Task
from autotune.tuner.factory import TunerChoice, make_tuner
from autotune.tuner.model.transfer import TransferPrior, doubted_text
from autotune.tuner.run.events import EventCallback, TuneSummary, ignore_event
from autotune.tuner.run.limits import TRIALS, Deadline, Limits
from autotune.tuner.run.parallel.kinds_at_once import tune_sessions
from autotune.tuner.run.parallel.parallel_session import new_session
from autotune.tuner.run.session import Session
from autotune.tuner.run.task_features import LOOPS, FeaturesChoice, find_features
from records import RecordStore
from records.log_set import stream_logs

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TuningRequest:
    """A workload to tune: how to search, how to measure, and when to end."""

    task: Task
    store: RecordStore  # Its log.
    limits: Limits = field(default_factory=lambda: Limits(TRIALS))
    policy: TimingPolicy = field(default_factory=TimingPolicy)  # How candidates are timed.
    timeout_s: float = 10.0  # That a candidate may take to build, and again to run.
    tuner: TunerChoice = "model"
    transfer: Sequence[str | PathLike[str]] = ()  # Logs of other workloads to learn from.
    storage: str | None = None  # URL of an Optuna storage that mirrors the trials.
    any_device: bool = False  # Whether records from other devices count as trials.
    weight: float = 1.0  # Weight of its time against those of other workloads, > 0.
    label: str = ""  # What events call it; "" for a workload that is alone.
    cost_model: CostModelChoice = XGBOOST  # Of the model tuner.
    features: FeaturesChoice = LOOPS  # What it reads of candidates.
    measurer: MeasurerChoice = LOCAL
    fleet: Fleet | None = None  # Measures in place of this machine; all requests of a run share it.
    # Of the fleet: "any", "each", part of a name, or a kind of device; None for most of a kind.
    devices: Wanted = None
    compare_on: str = ONE  # Devices of the fleet that finalists are timed on: "one", or "all".


def check_parts(
    cost_model: CostModelChoice, features: FeaturesChoice, measurer: MeasurerChoice
) -> None:
    """Raise UsageError unless there are such parts of a request."""
    find_cost_model(cost_model)
    find_features(features)
    find_measurer(measurer)


def check_fleet(
    has_fleet: bool, devices: str | None, measurer: MeasurerChoice, compare_on: str = ONE
) -> None:
    """Raise UsageError if these do not go together."""
    if has_fleet and measurer != LOCAL:
        raise UsageError("a fleet and a measurer are given: give one of them")
    if devices is not None and not has_fleet:
        raise UsageError("devices can only be chosen in a fleet, and there is none")
    if compare_on != ONE and not has_fleet:
        raise UsageError("comparing finalists on all devices needs a fleet, and there is none")


def check_each(devices: Wanted, any_device: bool) -> None:
    """Raise UsageError if searches for each kind of device were to count each other's records."""
    if devices == EACH and any_device:
        raise UsageError(
            "each kind of device has a search of its own: records from any device cannot count"
        )


def tune_requests(
    requests: Sequence[TuningRequest],
    seed: int = 0,
    on_event: EventCallback = ignore_event,
    time_s: float | None = None,
) -> list[TuneSummary]:
    """Tune workloads until each has reached a limit; return the result of each.

    seed: of every random choice, >= 0.
    on_event: told what happens.
    time_s: seconds for all of them together.

    UsageError if a template cannot be measured, or has no legal configuration.
    """
    refuse_while_loading("tuning")
    deadline = Deadline(time_s)
    with contextlib.ExitStack() as around:
        measurers = [
            around.enter_context(make_measurer(request, seed, deadline)) for request in requests
        ]
        measurers[0].start()  # it starts up while the template is traced here
        sessions = [
            make_session(request, measurer, seed, make_prior(request))
            for request, measurer in zip(requests, measurers, strict=True)
        ]
        fleet = requests[0].fleet
        together = None if fleet is None else fleet.run_together
        return tune_sessions(sessions, on_event, deadline, together)


def make_measurer(
    request: TuningRequest,
    seed: int,
    deadline: Deadline,
    fork_server: ForkServerProcess | None = None,
) -> Measurer:
    """Return the measurer of a workload, which the caller closes.

    fork_server: of its workers, if it was started before.
    """
    task = request.task
    if request.fleet is not None:
        policy, timeout_s = request.policy, request.timeout_s
        return FleetMeasurer(
            request.fleet, task, policy, timeout_s, seed, request.devices, request.compare_on
        )
    if request.measurer != LOCAL:
        return CustomMeasurer.of(request.measurer, task, request.policy, request.timeout_s, seed)
    reference, text = task.worker_source
    return LocalMeasurer(
        reference,
        task.args,
        task.target,
        request.policy,
        request.timeout_s,
        seed,
        left_s=lambda: deadline.left_s,
        fork_server=fork_server,
        text=text,
        constant=task.constant,
        name=task.template.name,
    )


def make_prior(request: TuningRequest) -> TransferPrior | None:
    """Return a prior learned from the logs in `transfer`; None if there are none.

    TransferError if nothing can be learned from them.
    """
    if not request.transfer:
        return None
    task = request.task
    prior = TransferPrior.of(stream_logs(request.transfer), task.space, least_s=least_costs(task))
    if prior.doubted:
        _log.warning(doubted_text(prior.doubted))
    return prior


def make_session(
    request: TuningRequest, measurer: Measurer, seed: int, prior: TransferPrior | None = None
) -> Session:
    """Return the session that tunes a workload."""
    task = request.task
    model, features = request.cost_model, find_features(request.features)(task)
    make_model = _trees if model == XGBOOST else find_cost_model(model)
    tuner = make_tuner(
        request.tuner, task.space, seed, features, prior, request.storage, make_model
    )
    return new_session(
        task,
        measurer,
        tuner,
        request.store,
        seed,
        request.limits,
        job=request.label,
        weight=request.weight,
        any_device=request.any_device,
    )


def _trees(seed: int) -> CostModel:
    """Return a tree model for a tuner, with XGBoost loaded in this process."""
    load_alone()
    return XGBCostModel(seed)
