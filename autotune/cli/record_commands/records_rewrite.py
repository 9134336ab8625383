"""`autotune records merge`, `compact` and `prune`: new logs of the records of others."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from autotune.cli.options.output_files import Force, Out, check_output
from autotune.cli.options.record_filters import Files, RecordChoice, opened_logs, takes_records
from autotune.cli.options.shared_options import Json
from autotune.cli.terminal.output import print_line, width
from autotune.cli.terminal.signals import ending_signals
from autotune.errors import UsageError
from autotune.report.progress import kinds_text
from autotune.report.text_tables import wrap
from autotune.system.words import counted
from records.best_of_group import MOST_TRIALS
from records.formats import FileFormat
from records.log_set import shipped_folder
from records.outline import Outline
from records.tools.compact import Compaction
from records.tools.log_lines import LogFile, LogLine, every_line, records_of
from records.tools.merge import merge
from records.tools.new_logs import Chosen, Lines, new_log, rewrite, write_lines
from records.tools.prune import Pruning

_NEW = "a log, compressed if the name ends in .gz."
OutOrNot = Annotated[
    str | None, typer.Option("--out", "-o", metavar="FILE", help=f"The log to write, {_NEW[6:]}")
]
InPlace = Annotated[
    bool, typer.Option("--in-place", help="Rewrite each log, also while runs append to it.")
]


def merge_logs(files: Files, out: Out, force: Force = False, as_json: Json = False) -> None:
    """Write the records of several logs as one log, in the order of time.

    Records that are there already are left out. Records of one measurement that differ all stay,
    and are marked.
    """
    logs = opened_logs(files)
    path = check_output(out, force, _paths(logs), remedy="`records import` appends to a log")
    with ending_signals(), new_log(path, force) as new:
        done = merge(records_of(every_line(logs)), new, path.parent)
    if as_json:
        print_line(json.dumps({"out": str(path), **asdict(done)}))
        return
    said = [counted(done.records, "record")]
    if done.duplicates:
        said.append(f"{counted(done.duplicates, 'exact duplicate')} left out")
    if done.conflicts:
        said.append(
            f"{counted(done.conflicts, 'measurement')} with records that differ: all kept, and "
            "marked (`records list --conflicts`)"
        )
    _say(f"{path}: {', '.join(said)}")


def compact_logs(
    files: Files,
    out: OutOrNot = None,
    in_place: InPlace = False,
    keep: Annotated[
        int,
        typer.Option(
            metavar="K",
            min=1,
            help="Trials to keep of each workload, target, device and structure of the template.",
        ),
    ] = MOST_TRIALS,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Keep what builds use: final comparisons and the best trials; say what was dropped.

    A run on the new log measures again what was dropped.
    """

    def choose(lines: Lines) -> Compaction:
        return Compaction(lines, keep)

    for path, chosen in _rewritten(opened_logs(files), out, in_place, force, choose):
        done = chosen.counts
        if as_json:
            print_line(json.dumps({"out": str(path), **asdict(done)}))
            continue
        kept = f"{done.kept} of {counted(done.kept + done.dropped, 'record')} kept"
        what = f"{counted(done.trials, 'trial')}, {done.finals} of final comparisons"
        said = [f"{path}: {kept} ({what})"]
        if done.dropped_trials:
            said.append(f"{counted(done.dropped_trials, 'slower trial')} dropped")
        if done.failures:
            failures = sum(done.failures.values())
            said.append(f"{counted(failures, 'failure')} dropped ({kinds_text(done.failures)})")
        _say(", ".join(said))


@takes_records
def prune_logs(
    chosen: RecordChoice,
    out: OutOrNot = None,
    in_place: InPlace = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the records that are meant, and drop the others.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Replace the file if there is one; drop even all records."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Drop the records that the options ask for; `list` with these options shows them first."""
    if not chosen.is_filtered:
        raise UsageError(
            "say which records are to be dropped, such as --failed, --gone or --before 90d (see "
            "`autotune records prune --help`)"
        )

    def drops(line: LogLine) -> bool:
        return chosen.line_filter(line) != keep

    def choose(lines: Lines) -> Pruning:
        return Pruning(lines(), drops)

    if not force:
        _check_left(chosen, drops, keep)

    for path, left in _rewritten(chosen.logs, out, in_place, force, choose):
        counts = left.counts
        if as_json:
            found = {"kept": counts["kept"], "dropped": counts["dropped"]}
            print_line(json.dumps({"out": str(path), **found}))
            continue
        total = counts["kept"] + counts["dropped"]
        text = f"{path}: {counts['dropped']} of {counted(total, 'record')} dropped"
        if none := counts["none"]:
            text += f"; {counted(none, 'line')} of no record kept (`records validate` lists them)"
        _say(text)


def _check_left(chosen: RecordChoice, drops: Callable[[LogLine], bool], keep: bool) -> None:
    """Raise UsageError if all records would be dropped, as by a wrongly typed name."""
    any_dropped = False
    for line in every_line(chosen.logs):
        if isinstance(line.found, Outline):
            if not drops(line):
                return
            any_dropped = True
    if any_dropped:
        what = "no record is" if keep else "all records are"
        raise UsageError(
            f"{what} what the options ask for, so that none would be left of {chosen.name}: "
            "nothing is dropped without --force"
        )


def _rewritten(
    logs: Sequence[LogFile],
    out: str | None,
    in_place: bool,
    force: bool,
    choose: Callable[[Lines], Chosen],
) -> Iterable[tuple[Path, Chosen]]:
    """Write the chosen lines to one log, or each log anew; yield the path and what was chosen.

    UsageError unless either `out` or `in_place` is given.
    """
    if (out is None) != in_place:
        raise UsageError("give either --out FILE, or --in-place to rewrite the log itself")
    if out is not None:
        path = check_output(out, force, _paths(logs), remedy="--in-place rewrites it")
        with ending_signals(), new_log(path, force) as new:
            chosen = choose(lambda: every_line(logs))
            write_lines(new, chosen)
        yield path, chosen
        return
    for log in logs:
        if log.path.parent == shipped_folder():
            raise UsageError(
                f"{log.path} ships with autotune and is not rewritten: give a log to write by --out"
            )
        if log.foreign not in (None, FileFormat.COMPRESSED):
            raise UsageError(
                f"{log.path} is {log.foreign}, which is not rewritten: give a log to write by --out"
            )
    for log in logs:
        with ending_signals():
            chosen = rewrite(log.path, choose)
        yield log.path, chosen


def _paths(logs: Sequence[LogFile]) -> list[Path]:
    return [log.path for log in logs]


def _say(text: str) -> None:
    print_line(wrap(text, width(), "  "))
