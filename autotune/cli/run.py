"""`autotune run`: search for the fastest configuration of a workload, and log measurements."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.cli.files import check_readable
from autotune.cli.logs import check_log, open_log
from autotune.cli.main import NOTHING_FOUND
from autotune.cli.output import StopError, say
from autotune.cli.signals import ending_signals, exit_code
from autotune.cli.tasks import make_task, work_of
from autotune.cli.threads import load_numpy_for_one_thread
from autotune.errors import UsageError

if TYPE_CHECKING:
    from autotune.measure.local import LocalMeasurer
    from autotune.report.display import Display
    from autotune.report.job import Job
    from autotune.report.progress import Progress
    from autotune.target import Target
    from autotune.task import Task
    from autotune.tuner.events import TuneSummary
    from autotune.tuner.transfer import TransferPrior
    from records import RecordStore


@dataclass(frozen=True)
class SearchOptions:
    """How to search, as in `autotune run --help`."""

    tuner: str
    patience: float | None = None
    transfer: Sequence[str] = ()
    storage: str | None = None


@dataclass(frozen=True)
class RunOptions:
    """The words of the command line, as in `autotune run --help`."""

    template: str
    settings: Sequence[str]
    target: str
    trials: int
    search: SearchOptions
    log: str | None
    seed: int | None
    timeout_s: float
    view: str = "progress"


def view_of(quiet: bool, json_lines: bool) -> str:
    """Return which view --quiet and --json-lines ask for; UsageError if both are given."""
    if quiet and json_lines:
        raise UsageError("--quiet and --json-lines exclude one another: give one of them")
    return "quiet" if quiet else "json-lines" if json_lines else "progress"


def run_command(options: RunOptions) -> None:
    """Tune, showing what the view shows.

    Raises
    ------
    StopError
        3 if nothing valid was found; 130 (or 128 and the signal) if interrupted.
    UsageError
        If an option, the template or the log is not what it should be.
    """
    begin = time.monotonic()
    with ending_signals():
        load_numpy_for_one_thread()
        _run(options, begin)


def _run(options: RunOptions, begin: float) -> None:
    _check(options)
    path = None if options.log is None else check_log(options.log)
    task = make_task(options.template, options.settings, options.target, options.timeout_s)
    _check_target(task.target)
    path = path or check_log(f"{_file_name(task.workload.template)}.jsonl")
    store = open_log(path)
    chosen = options.seed is None
    seed = secrets.randbelow(2**31) if options.seed is None else options.seed

    from autotune.measure.local import LocalMeasurer
    from autotune.report.job import Job
    from autotune.report.spaces import legal_lines

    with LocalMeasurer(
        task.template_ref, task.args, task.target, timeout_s=options.timeout_s, seed=seed
    ) as measurer:
        measurer.start()  # it starts up while the template is traced here
        _require_feasible(task)
        job = Job(
            task.workload,
            str(task.target),
            str(path),
            seed,
            work_of(task),
            seed_chosen=chosen,
            space=tuple(legal_lines(task.space)),
            default_index=task.default_index,
        )
        summary = _tune(task, job, measurer, store, options, begin)
    if summary.best is None:
        raise StopError(NOTHING_FOUND, _nothing_valid(summary, path))


def _check(options: RunOptions) -> None:
    from autotune.tuner.factory import check_tuner
    from autotune.tuner.patience import check_share

    search = options.search
    check_tuner(search.tuner, bool(search.transfer), search.storage is not None)
    if search.patience is not None:
        check_share(search.patience)
        if search.tuner != "model":
            raise UsageError("patience needs a tuner that estimates its gain: use --tuner model")
    for log in search.transfer:
        check_readable(log, "--transfer")
    if not (math.isfinite(options.timeout_s) and options.timeout_s > 0):
        raise UsageError(f"--timeout must be a number of seconds > 0, not {options.timeout_s:g}")


def _check_target(target: Target) -> None:
    if target.kind != "llvm":
        raise UsageError(
            f"target {str(target)!r} cannot be measured by this version: expected kind llvm"
        )
    if target.mcpu != "native":
        from autotune.runtime.llvm import check_target

        check_target(target)


def _file_name(template: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in template)


def _require_feasible(task: Task) -> None:
    """Raise StopError if no configuration is allowed."""
    from search_spaces import SpaceError

    try:
        _ = task.default_index
    except SpaceError as error:
        raise StopError(NOTHING_FOUND, f"{task.workload}: {error}") from error


def _tune(
    task: Task,
    job: Job,
    measurer: LocalMeasurer,
    store: RecordStore,
    options: RunOptions,
    begin: float,
) -> TuneSummary:
    """Run the loop under a display; the time counts from `begin`."""
    from autotune.cli.features import LazyTaskFeatures
    from autotune.report.display import View, make_display
    from autotune.report.progress import Progress
    from autotune.tuner.factory import make_tuner
    from autotune.tuner.loop import tune

    progress = Progress(begin=begin)
    search = options.search
    try:
        with make_display(View(options.view), progress, say) as display:
            display.open_job(job)
            tuner = make_tuner(
                search.tuner,
                task.space,
                job.seed,
                LazyTaskFeatures(task),
                _prior(search.transfer, task, display),
                search.storage,
            )
            summary = tune(
                task,
                measurer,
                tuner,
                store,
                options.trials,
                job.seed,
                on_event=display.on_event,
                patience=search.patience,
            )
            display.conclude()
    except KeyboardInterrupt as interrupt:
        raise _interrupted(progress, store, exit_code(interrupt)) from None
    return summary


def _prior(logs: Sequence[str], task: Task, display: Display) -> TransferPrior | None:
    """Return what other logs say of the task's space; None if there are none."""
    if not logs:
        return None
    from autotune.tuner.transfer import TransferPrior
    from records.formats import read_any

    prior = TransferPrior.of([record for log in logs for record in read_any(log)], task.space)
    others = "1 workload" if prior.sources == 1 else f"{prior.sources} workloads"
    display.note(f"learned from {prior.measurements} measurements of {others}")
    return prior


def _interrupted(progress: Progress, store: RecordStore, code: int) -> StopError:
    (standing,) = progress.standings.values()
    if not standing.trial:
        return StopError(code, "interrupted before anything was measured")
    best = f", {standing.parts()[0]}" if standing.best_s is not None else ""
    return StopError(
        code,
        f"interrupted after {standing.trial} of {standing.trials} trials{best}; "
        f"they are in {store.path}, and the same command goes on from there",
    )


def _nothing_valid(summary: TuneSummary, path: Path) -> str:
    from autotune.report.progress import failures_text
    from autotune.report.units import trials_text

    what = failures_text(summary.failures) if summary.failures else "nothing was measured"
    return f"nothing valid was found in {trials_text(summary.trials)}: {what}; {path} says why"
