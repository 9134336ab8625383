"""Tunes the workloads of `autotune run`, and says how it ended."""

from __future__ import annotations

import contextlib
import logging
import secrets
from collections.abc import Sequence
from dataclasses import replace

from autotune.cli.options.job_files import RunOptions
from autotune.cli.options.run_plans import make_requests, workload_errors
from autotune.cli.options.search_checks import transfer_errors
from autotune.cli.terminal.output import MISTAKE, NOTHING_FOUND, StopError, print_raw
from autotune.cli.terminal.signals import exit_code
from autotune.measure.measurer import Measurer
from autotune.measure.pool.fork_server_client import ForkServerProcess
from autotune.report.display.run_display import View, make_display
from autotune.report.outcome import nothing_measured
from autotune.report.progress import RunProgress, WorkloadStatus, failures_text, workload_info
from autotune.reuse.valid_records import valid_records
from autotune.system.words import counted
from autotune.task.task import Task
from autotune.tuner.run.events import TuneSummary
from autotune.tuner.run.limits import Deadline
from autotune.tuner.run.parallel.each_kind import each_kind
from autotune.tuner.run.parallel.kinds_at_once import tune_sessions
from autotune.tuner.run.session import Session
from autotune.tuner.run.tuning_job import TuningRequest, make_measurer, make_prior, make_session
from records import ranked
from search_spaces import SpaceError

_log = logging.getLogger(__name__)


def run_workloads(options: RunOptions, begin: float, fork_server: ForkServerProcess) -> None:
    """Tune the workloads of a run, and display it in its view.

    begin: when the run began, in monotonic seconds.
    fork_server: of the first workload; others start their own.

    StopError with 3 if nothing valid was found, with 130 (or 128 and the signal) if interrupted;
    UsageError if a template or a log is not what it should be.
    """
    deadline = Deadline(options.time_s, begin=begin)
    asked = make_requests(options, deadline)
    chosen = secrets.randbelow(2**31) if options.seed is None else None
    seed = options.seed if chosen is None else chosen
    assert seed is not None
    progress = RunProgress(begin=begin)
    try:
        with contextlib.ExitStack() as around:
            display = make_display(View(options.view), progress, print_raw)
            numbered = around.enter_context(each_kind(asked))
            requests = [request for _, request in numbered]
            fork_servers = [fork_server, *[None] * (len(requests) - 1)]
            measurers = [
                around.enter_context(make_measurer(request, seed, deadline, own))
                for request, own in zip(requests, fork_servers, strict=True)
            ]
            measurers[0].start()  # it starts up while the template is traced here
            for number, request in numbered:
                with workload_errors(options, number + 1):  # a template may refuse its arguments
                    _require_feasible(request.task)
            around.enter_context(display)
            sessions = []
            for (number, request), measurer in zip(numbered, measurers, strict=True):
                with workload_errors(options, number + 1):  # its operations may not be known
                    with transfer_errors():
                        prior = make_prior(request)
                    display.open_job(workload_info(request, seed, chosen is not None))
                    if prior is not None:
                        of = counted(prior.sources, "workload")
                        display.note(f"learned from {prior.measurements} measurements of {of}")
                    sessions.append(make_session(request, measurer, seed, prior))
            fleet = asked[0].fleet
            together = None if fleet is None else fleet.run_together
            summaries = tune_sessions(sessions, display.on_event, deadline, together)
            display.conclude()
    except KeyboardInterrupt as interrupt:
        if not progress.standings:  # nothing has been displayed yet
            raise
        raise _interrupted(progress, requests, measurers, exit_code(interrupt)) from None
    _exit_code(requests, sessions, summaries)


def _require_feasible(task: Task) -> None:
    """Raise StopError if no configuration is allowed."""
    try:
        _ = task.default_index
    except SpaceError as error:
        raise StopError(NOTHING_FOUND, f"{task.workload}: {error}") from error


def _interrupted(
    progress: RunProgress,
    requests: Sequence[TuningRequest],
    measurers: Sequence[Measurer],
    code: int,
) -> StopError:
    """Return the line on the results in the logs, which may be newer than the displayed ones."""
    shown = progress.standings
    statuses = [
        _logged(shown[request.label], request, measurer)
        for request, measurer in zip(requests, measurers, strict=True)
        if request.label in shown
    ]
    trials = sum(status.trial for status in statuses)
    if not trials:
        return StopError(code, "interrupted before anything was measured")
    logs = ", ".join(dict.fromkeys(str(request.store.path) for request in requests))
    rest = f"they are in {logs}, and the same command goes on from there"
    if len(statuses) > 1:
        done = f"{trials} trials of {len(statuses)} workloads"
        return StopError(code, f"interrupted after {done}; {rest}")
    (status,) = statuses
    wanted = "" if status.trials is None else f" of {status.trials}"
    best = f", {status.parts()[0]}" if status.best_s is not None else ""
    return StopError(code, f"interrupted after {trials}{wanted} trials{best}; {rest}")


def _logged(
    status: WorkloadStatus, request: TuningRequest, measurer: Measurer
) -> WorkloadStatus:
    """Return the status of a workload from its log."""
    found = valid_records(
        request.task, request.store.load(), _log.info, request.any_device, measurer.device
    )
    records = [record for _, record in found]
    trials = sum(record.is_trial for record in records)
    return replace(status, trial=trials, best=next(iter(ranked(records)), None))


def _exit_code(
    requests: Sequence[TuningRequest], sessions: Sequence[Session], summaries: Sequence[TuneSummary]
) -> None:
    """Raise StopError if a workload failed, or nothing valid was found for one."""
    failed = [f"{s.job}: {s.error}" for s in sessions if s.error is not None]
    if failed:
        what = f"{len(failed)} of {len(sessions)} workloads could not be measured"
        raise StopError(MISTAKE, f"{what}: {'; '.join(failed)}")
    for request, summary in zip(requests, summaries, strict=True):
        if summary.best is None:
            name = f"{request.label}: " if request.label else ""
            raise StopError(NOTHING_FOUND, f"{name}{_nothing_valid(request, summary)}")


def _nothing_valid(request: TuningRequest, summary: TuneSummary) -> str:
    """Return why nothing was found."""
    if not summary.trials:
        return nothing_measured(summary)
    return (
        f"nothing valid was found in {counted(summary.trials, 'trial')}: "
        f"{failures_text(summary.failures)}, the first one in {request.store.path}: "
        f"{summary.first_error}"
    )
