"""`autotune run`: search for the fastest configuration of a workload, and log measurements."""

from __future__ import annotations

import math
import secrets
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.cli.main import INTERRUPTED, NOTHING_FOUND
from autotune.cli.output import StopError, say, width
from autotune.cli.tasks import closest, make_task, work_of
from autotune.errors import UsageError

if TYPE_CHECKING:
    from autotune.measure.local import LocalMeasurer
    from autotune.report.progress import Progress
    from autotune.report.units import Work
    from autotune.target import Target
    from autotune.task import Task
    from autotune.tuner.loop import TuneSummary
    from records import RecordStore


@dataclass(frozen=True)
class RunOptions:
    """The words of the command line, as in `autotune run --help`."""

    template: str
    settings: Sequence[str]
    target: str
    trials: int
    tuner: str
    log: str | None
    seed: int | None
    timeout_s: float


def run_command(options: RunOptions) -> None:
    """Tune, showing progress, and print a summary.

    Raises
    ------
    StopError
        3 if nothing valid was found; 130 if interrupted.
    UsageError
        If an option, the template or the log is not what it should be.
    """
    _check(options)
    task = make_task(options.template, options.settings, options.target)
    _check_target(task.target)
    default = f"{_file_name(task.workload.template)}.jsonl"
    path = Path(default if options.log is None else options.log)
    store = _open_log(path)
    chosen = options.seed is None
    seed = secrets.randbelow(2**31) if options.seed is None else options.seed

    from autotune.measure.local import LocalMeasurer

    with LocalMeasurer(
        task.template_ref, task.args, task.target, timeout_s=options.timeout_s, seed=seed
    ) as measurer:
        measurer.start()  # it starts up while the template is traced here
        _require_feasible(task)
        work = work_of(task)
        say(f"{task.workload} on {task.target}")
        say(f"log {path}, seed {seed}{' (chosen now)' if chosen else ''}")
        summary = _tune(task, work, measurer, store, options, seed)
    if summary.best is None:
        raise StopError(NOTHING_FOUND, _nothing_valid(summary, path))


def _check(options: RunOptions) -> None:
    from autotune.tuner.factory import TUNERS

    if options.tuner not in TUNERS:
        meant = closest(options.tuner, TUNERS)
        raise UsageError(
            f"unknown tuner {options.tuner!r}: "
            + (f"did you mean {meant!r}?" if meant else f"expected one of {', '.join(TUNERS)}")
        )
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


def _open_log(path: Path) -> RecordStore:
    """Return the log, known to be readable and writable before anything is measured."""
    from records import RecordStore

    store = RecordStore(path)
    store.load()
    try:
        if path.exists():
            path.open("ab").close()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=path.parent).close()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"cannot write the log {path}: {why}; choose another by --log") from error
    return store


def _require_feasible(task: Task) -> None:
    """Raise StopError if no configuration is allowed."""
    from search_spaces import SpaceError

    try:
        _ = task.default_index
    except SpaceError as error:
        raise StopError(NOTHING_FOUND, f"{task.workload}: {error}") from error


def _tune(
    task: Task,
    work: Work,
    measurer: LocalMeasurer,
    store: RecordStore,
    options: RunOptions,
    seed: int,
) -> TuneSummary:
    """Run the loop under a display and print the summary line."""
    from autotune.cli.features import LazyTaskFeatures
    from autotune.report.display import make_display
    from autotune.report.progress import Progress
    from autotune.report.summary import summary_line
    from autotune.tuner.factory import make_tuner
    from autotune.tuner.loop import tune

    progress = Progress(work)
    tuner = make_tuner(options.tuner, task.space, seed, LazyTaskFeatures(task))
    try:
        with make_display(progress, say, width()) as display:
            summary = tune(
                task, measurer, tuner, store, options.trials, seed, on_event=display.on_event
            )
    except KeyboardInterrupt:
        raise _interrupted(progress, work, store) from None
    say(summary_line(summary, work))
    return summary


def _interrupted(progress: Progress, work: Work, store: RecordStore) -> StopError:
    standing = progress.standing
    best = f", {standing.parts()[0]}" if standing.best_s is not None else ""
    return StopError(
        INTERRUPTED,
        f"interrupted after {standing.trial} of {standing.trials} trials{best}; "
        f"they are in {store.path}, and the same command goes on from there",
    )


def _nothing_valid(summary: TuneSummary, path: Path) -> str:
    from autotune.report.progress import failures_text
    from autotune.report.units import trials_text

    what = failures_text(summary.failures) if summary.failures else "nothing was measured"
    return f"nothing valid was found in {trials_text(summary.trials)}: {what}; {path} says why"
