"""`autotune replay`: run tuners on recorded measurements, and compare them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from autotune.cli.options import shared_options as shared
from autotune.cli.options.input_files import check_logs
from autotune.cli.options.multi_value_options import Command
from autotune.cli.options.search_checks import check_search, transfer_errors
from autotune.cli.terminal.output import NOTHING_FOUND, StopError, print_error, print_line, width
from autotune.errors import UsageError
from autotune.report.plots import check_picture, draw_curves
from autotune.report.replay_scores import (
    Score,
    comparison_json,
    comparison_table,
    curve_over_measurements,
    curve_over_seconds,
    score,
    score_table,
)
from autotune.report.units import duration_text, time_text
from autotune.system.words import counted
from autotune.tuner.factory import check_tuner
from autotune.tuner.replay.compare_tuners import (
    Files,
    ReplayJob,
    distinct,
    find_recording,
    load_recordings,
    run_jobs,
)
from autotune.tuner.replay.replay_tuner import Trace
from records import RecordError

# Suffixes of the files that `autotune replay compare` looks at.
MEASUREMENT_FILES = (".json", ".json.gz", ".jsonl", ".jsonl.gz", ".log", ".log.gz")

# Optimum in seconds (0 where nothing works) and traces, by space.
TracesBySpace = dict[str, tuple[float, list[Trace]]]


@dataclass(frozen=True, kw_only=True)
class ReplayOptions:
    """Options that both commands have."""

    tuner: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME ...",
            help="model, random, grid, genetic, local, optuna:SAMPLER or your MODULE:CLASS.  "
            "[model]",
        ),
    ] = None
    budget: Annotated[int, typer.Option(min=1, help="Measurements per run.")] = 200
    repeats: Annotated[int, typer.Option(min=1, help="Runs, each with a seed of its own.")] = 1
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first run; others count on.")] = 0
    batch: Annotated[int, typer.Option(min=1, help="Candidates a tuner is asked for at once.")] = 1
    jobs: Annotated[int, typer.Option(min=1, help="Processes that run tuners side by side.")] = 1
    as_json: shared.Json = False
    plot: Annotated[
        str | None, typer.Option(metavar="FILE", help="Draw the curves into a picture.")
    ] = None
    patience: shared.Patience = None
    transfer: shared.Transfer = None

    @property
    def tuners(self) -> list[str]:
        """The tuners to run."""
        return self.tuner or ["model"]


@dataclass(frozen=True, kw_only=True)
class ReplayRunOptions(ReplayOptions):
    """Options of `autotune replay run`."""

    files: Annotated[list[str], typer.Argument(metavar="FILE ...", help=shared.MEASUREMENTS_HELP)]
    workload: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which one, if there are several.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class ReplayCompareOptions(ReplayOptions):
    """Options of `autotune replay compare`."""

    folder: Annotated[str, typer.Argument(metavar="DIR", help="Folder of recorded files.")]
    repeats: Annotated[int, typer.Option(min=1, help="Runs, each with a seed of its own.")] = 10


app = shared.command_app()


@app.command(cls=Command)
@shared.options_of(ReplayRunOptions)
def run(options: ReplayRunOptions) -> None:
    """Search one recorded space: nothing is built, nothing runs.

    The space is the file's configurations; the share is that of the optimum, after so many
    measurements.
    """
    _check(options)
    check_logs(options.files)
    file = options.files[0] if len(options.files) == 1 else tuple(options.files)
    found = load_recordings(file)
    if options.workload is None and len(found) > 1:
        names = ", ".join(repr(r.name) for r in found[:4])
        raise UsageError(
            f"{' and '.join(options.files)} {'holds' if isinstance(file, str) else 'hold'} "
            f"{len(found)} workloads: choose one by --workload, such as {names}"
        )
    name = options.workload or found[0].name
    traces = _run([(file, name)], options)
    space = find_recording(file, name).space
    if options.as_json:
        runs = {
            tuner: [_trace_json(trace) for trace in spaces[name][1]]
            for tuner, spaces in traces.items()
        }
        print_line(json.dumps({**_comparison(traces, options), "space": name, "runs": runs}))
    else:
        optimum_s = traces[options.tuners[0]][name][0]
        optimum = f"optimum {time_text(optimum_s)}" if optimum_s else "none of which works"
        print_line(f"{name}: {len(space.feasible_indices())} configurations, {optimum}")
        _say_table(traces, options)
        for tuner, spaces in traces.items():
            for number, trace in enumerate(spaces[name][1]):
                print_line(f"{tuner}, seed {options.seed + number}: {_trace_text(trace)}")
    _plot(traces, options)
    if all(optimum == 0.0 for spaces in traces.values() for optimum, _ in spaces.values()):
        raise StopError(NOTHING_FOUND, f"{name}: every recorded measurement failed")


@app.command(cls=Command)
@shared.options_of(ReplayCompareOptions)
def compare(options: ReplayCompareOptions) -> None:
    """Search every recorded space of a folder, and print the means.

    Share of the optimum after so many measurements, share of runs that came within 5 % of it,
    and measurements to get there.
    """
    _check(options)
    workloads = _workloads(options.folder)
    traces = _run(workloads, options)
    if options.as_json:
        print_line(json.dumps(_comparison(traces, options)))
    else:
        runs = counted(options.repeats, "run")
        print_line(f"{len(workloads)} spaces, {runs} each, {options.budget} measurements")
        _say_table(traces, options)
    _plot(traces, options)


def _workloads(folder: str) -> list[tuple[str, str]]:
    """Return (file, workload) for all records in a folder; report files that are left out."""
    if not Path(folder).is_dir():
        raise UsageError(f"{folder} is not a folder: give one that holds files of measurements")
    recorded = []
    for path in sorted(Path(folder).iterdir()):
        if not path.name.endswith(MEASUREMENT_FILES) or not path.is_file():
            continue
        try:
            found = load_recordings(str(path))
        except (RecordError, UsageError) as error:
            print_error(f"left out: {error}")
            continue
        for recording in found:
            if recording.optimum_s is None:
                print_error(f"left out: {recording.name}: every recorded measurement failed")
            else:
                recorded.append((str(path), recording))
    kept, repeated = distinct(recorded)
    for line in repeated:
        print_error(f"left out: {line}")
    if not kept:
        raise UsageError(f"{folder} holds no file of measurements")
    return kept


def _run(
    workloads: Sequence[tuple[Files, str]], options: ReplayOptions
) -> dict[str, TracesBySpace]:
    """Run every tuner on every workload; traces by tuner and space."""
    for tuner in options.tuners:
        check_tuner(tuner, bool(options.transfer))
    optima = {(path, name): find_recording(path, name).optimum_s or 0.0 for path, name in workloads}
    common = (options.budget, options.repeats, options.seed, options.batch, options.patience)
    pairs = [(tuner, path, name) for tuner in options.tuners for path, name in optima]
    jobs = [
        ReplayJob(path, name, tuner, *common, tuple(options.transfer or ()))
        for tuner, path, name in pairs
    ]
    found: dict[str, TracesBySpace] = {tuner: {} for tuner in options.tuners}
    with transfer_errors():
        for (tuner, path, name), traces in zip(pairs, run_jobs(jobs, options.jobs), strict=True):
            found[tuner][name] = (optima[path, name], traces)
    return found


def _scores(
    traces: Mapping[str, TracesBySpace], options: ReplayOptions
) -> dict[str, dict[str, Score]]:
    return {
        tuner: {
            space: score(runs, optimum, options.budget) for space, (optimum, runs) in spaces.items()
        }
        for tuner, spaces in traces.items()
    }


def _comparison(traces: Mapping[str, TracesBySpace], options: ReplayOptions) -> dict[str, Any]:
    return comparison_json(_scores(traces, options))


def _say_table(traces: Mapping[str, TracesBySpace], options: ReplayOptions) -> None:
    scores = _scores(traces, options)
    print_line(comparison_table(scores, width()))
    for tuner, spaces in scores.items():
        if len(spaces) > 1:
            print_line("")
            print_line(score_table(tuner, spaces, width()))


def _trace_json(trace: Trace) -> dict[str, Any]:
    return {
        "indices": list(trace.indices),
        "costs_s": [cost if cost == cost else None for cost in trace.costs_s.tolist()],
        "seconds": trace.seconds.tolist(),
        "thinking_s": trace.thinking_s,
        "ended": trace.ended,
    }


def _trace_text(trace: Trace) -> str:
    count = len(trace.indices)
    worked = trace.costs_s[trace.costs_s == trace.costs_s]
    best = f"best {time_text(float(worked.min()))}" if len(worked) else "nothing worked"
    spent = duration_text(float(trace.seconds[-1])) if count else "0 s"
    return f"{best} in {counted(count, 'measurement')} ({spent} recorded), {trace.ended}"


def _check(options: ReplayOptions) -> None:
    """Refuse files that cannot be read, or drawn, before hours of runs and not after them."""
    check_search(options.tuners, options.patience, options.transfer or ())
    if options.plot is not None:
        check_picture(Path(options.plot))


def _plot(traces: Mapping[str, TracesBySpace], options: ReplayOptions) -> None:
    if options.plot is None:
        return
    runs = {
        tuner: [(trace, optimum) for optimum, some in spaces.values() for trace in some]
        for tuner, spaces in traces.items()
    }
    panels = {
        "measurements": {t: curve_over_measurements(r, options.budget) for t, r in runs.items()}
    }
    timed = {tuner: curve_over_seconds(some) for tuner, some in runs.items()}
    over_seconds = {tuner: curve for tuner, curve in timed.items() if curve is not None}
    if over_seconds:
        panels["simulated seconds of building and running"] = over_seconds
    draw_curves(panels, Path(options.plot))
    if not options.as_json:
        print_line(f"curves in {options.plot}")
