"""Tunes the workloads of `autotune run`, and says how it ended."""

from __future__ import annotations

import contextlib
import logging
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from autotune.cli.options.job_files import RunOptions
from autotune.cli.options.run_plans import WorkloadPlan, make_plans, workload_errors
from autotune.cli.options.search_checks import transfer_errors
from autotune.cli.options.task_arguments import work_of
from autotune.cli.terminal.output import MISTAKE, NOTHING_FOUND, StopError, print_raw
from autotune.cli.terminal.signals import exit_code
from autotune.cost_model.base import CostModel, FloatMatrix, IndexVector
from autotune.cost_model.xgboost_model import load_alone
from autotune.measure.local_measurer import LocalMeasurer
from autotune.measure.pool.fork_server_client import ForkServerProcess
from autotune.operators.template_lookup import text_of
from autotune.report.display.run_display import View, make_display
from autotune.report.outcome import refusals_text
from autotune.report.progress import RunProgress, WorkloadInfo, WorkloadStatus, failures_text
from autotune.report.space_text import legal_lines
from autotune.reuse.valid_records import least_costs, valid_records
from autotune.system.words import counted
from autotune.task.task import Task
from autotune.tuner.factory import make_tuner
from autotune.tuner.model.model_tuner import default_model
from autotune.tuner.model.transfer import TransferPrior, doubted_text
from autotune.tuner.run.events import TuneSummary
from autotune.tuner.run.limits import Deadline
from autotune.tuner.run.portfolio import Portfolio
from autotune.tuner.run.session import Session
from records import ranked
from records.log_set import stream_logs
from search_spaces import SpaceError

if TYPE_CHECKING:
    from autotune.feature import TaskFeatures


_log = logging.getLogger(__name__)


def run_workloads(options: RunOptions, begin: float, fork_server: ForkServerProcess) -> None:
    """Tune the workloads of a run, and display it in its view.

    begin: when the run began, in monotonic seconds.
    fork_server: of the first workload; others start their own.

    StopError with 3 if nothing valid was found, with 130 (or 128 and the signal) if interrupted;
    UsageError if a template or a log is not what it should be.
    """
    deadline = Deadline(options.time_s, begin=begin)
    plans = make_plans(options, deadline)
    chosen = secrets.randbelow(2**31) if options.seed is None else None
    seed = options.seed if chosen is None else chosen
    assert seed is not None
    progress = RunProgress(begin=begin)
    try:
        with contextlib.ExitStack() as around:
            display = make_display(View(options.view), progress, print_raw)
            fork_servers = [fork_server, *[None] * (len(plans) - 1)]
            measurers = [
                around.enter_context(_measurer(plan, seed, deadline, own))
                for plan, own in zip(plans, fork_servers, strict=True)
            ]
            measurers[0].start()  # it starts up while the template is traced here
            for number, plan in enumerate(plans, 1):
                with workload_errors(options, number):  # a template may refuse its arguments
                    _require_feasible(plan.task)
            around.enter_context(display)
            sessions = []
            for number, (plan, measurer) in enumerate(zip(plans, measurers, strict=True), 1):
                with workload_errors(options, number):  # its operations may not be known
                    prior = _prior(plan.options.transfer, plan.task)
                    display.open_job(_job(plan, seed, chosen is not None))
                    if prior is not None:
                        of = counted(prior.sources, "workload")
                        display.note(f"learned from {prior.measurements} measurements of {of}")
                    sessions.append(_session(plan, measurer, seed, prior))
            summaries = Portfolio(sessions, display.on_event, deadline).run()
            display.conclude()
    except KeyboardInterrupt as interrupt:
        if not progress.standings:  # it was not shown what there is to do
            raise
        raise _interrupted(progress, plans, exit_code(interrupt)) from None
    _exit_code(plans, sessions, summaries)


def _measurer(
    plan: WorkloadPlan, seed: int, deadline: Deadline, fork_server: ForkServerProcess | None
) -> LocalMeasurer:
    task, options = plan.task, plan.options
    return LocalMeasurer(
        task.template_ref,
        task.args,
        task.target,
        options.policy,
        options.timeout_s,
        seed,
        left_s=lambda: deadline.left_s,
        fork_server=fork_server,
        text=text_of(task.template),  # it may be edited during the run
        constant=task.constant,
    )


def _require_feasible(task: Task) -> None:
    """Raise StopError if no configuration is allowed."""
    try:
        _ = task.default_index
    except SpaceError as error:
        raise StopError(NOTHING_FOUND, f"{task.workload}: {error}") from error


def _job(plan: WorkloadPlan, seed: int, seed_chosen: bool) -> WorkloadInfo:
    task = plan.task
    return WorkloadInfo(
        task.workload,
        str(task.target),
        str(plan.store.path),
        seed,
        work_of(task),
        plan.label,
        seed_chosen,
        tuple(legal_lines(task.space, bool(task.untraceable))),
        task.default_index,
        len(task.structures),
    )


def _session(
    plan: WorkloadPlan, measurer: LocalMeasurer, seed: int, prior: TransferPrior | None
) -> Session:
    task, options = plan.task, plan.options
    tuner = make_tuner(
        options.tuner,
        task.space,
        seed,
        _LazyFeatures(task),
        prior,
        options.storage,
        _trees,
    )
    return Session(
        task,
        measurer,
        tuner,
        plan.store,
        seed,
        options.limits,
        plan.label,
        options.weight,
        any_device=options.any_device,
    )


class _LazyFeatures:
    """A `FeatureSource`: `TaskFeatures` of a task, built when a tuner first needs them."""

    def __init__(self, task: Task) -> None:
        self._task = task

    @cached_property
    def _features(self) -> TaskFeatures:
        from autotune.feature import TaskFeatures

        return TaskFeatures(self._task)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return self._features.names

    def prepare(self, n: int) -> None:
        """Prepare to compute the features of `n` candidates."""
        self._features.prepare(n)

    def preparations(self) -> Iterator[None]:
        """Do slow preparations, a part at each step."""
        return self._features.preparations()

    def matrix(self, indices: IndexVector, names: Sequence[str] | None = None) -> FloatMatrix:
        """Return the features of the candidates at `indices`, float32 (n, len(names))."""
        return self._features.matrix(indices, names)


def _trees(seed: int) -> CostModel:
    """Return a tree model for a tuner, with XGBoost loaded in this process."""
    load_alone()
    return default_model(seed)


def _prior(logs: Sequence[str], task: Task) -> TransferPrior | None:
    """Return the prior that other logs give for the task's space; None if there are none."""
    if not logs:
        return None
    with transfer_errors():
        prior = TransferPrior.of(stream_logs(logs), task.space, least_s=least_costs(task))
    if prior.doubted:
        _log.warning(doubted_text(prior.doubted))
    return prior


def _interrupted(progress: RunProgress, plans: Sequence[WorkloadPlan], code: int) -> StopError:
    """Return the line on the results in the logs, which may be newer than the displayed ones."""
    shown = progress.standings
    statuses = [_logged(shown[plan.label], plan) for plan in plans if plan.label in shown]
    trials = sum(status.trial for status in statuses)
    if not trials:
        return StopError(code, "interrupted before anything was measured")
    logs = ", ".join(dict.fromkeys(str(plan.store.path) for plan in plans))
    rest = f"they are in {logs}, and the same command goes on from there"
    if len(statuses) > 1:
        done = f"{trials} trials of {len(statuses)} workloads"
        return StopError(code, f"interrupted after {done}; {rest}")
    (status,) = statuses
    wanted = "" if status.trials is None else f" of {status.trials}"
    best = f", {status.parts()[0]}" if status.best_s is not None else ""
    return StopError(code, f"interrupted after {trials}{wanted} trials{best}; {rest}")


def _logged(status: WorkloadStatus, plan: WorkloadPlan) -> WorkloadStatus:
    """Return the status of a workload from its log."""
    found = valid_records(
        plan.task, plan.store.load(), any_device=plan.options.any_device, notify=_log.info
    )
    records = [record for _, record in found]
    trials = sum(record.is_trial for record in records)
    return replace(status, trial=trials, best=next(iter(ranked(records)), None))


def _exit_code(
    plans: Sequence[WorkloadPlan], sessions: Sequence[Session], summaries: Sequence[TuneSummary]
) -> None:
    """Raise StopError if a workload failed, or nothing valid was found for one."""
    failed = [f"{s.job}: {s.error}" for s in sessions if s.error is not None]
    if failed:
        what = f"{len(failed)} of {len(sessions)} workloads could not be measured"
        raise StopError(MISTAKE, f"{what}: {'; '.join(failed)}")
    for plan, summary in zip(plans, summaries, strict=True):
        if summary.best is None:
            name = f"{plan.label}: " if plan.label else ""
            raise StopError(NOTHING_FOUND, f"{name}{_nothing_valid(plan, summary)}")


def _nothing_valid(plan: WorkloadPlan, summary: TuneSummary) -> str:
    """Return why nothing was found."""
    if not summary.trials and summary.refused:
        return f"nothing was measured: {refusals_text(summary.refused)}"
    if not summary.trials:
        over = summary.ended == "time"
        return f"nothing was measured{' before the time was over; give more' if over else ''}"
    what, path = failures_text(summary.failures), plan.store.path
    return f"nothing valid was found in {counted(summary.trials, 'trial')}: {what}; {path} says why"
