"""The logs that a command of `autotune records` reads, and the options that choose records."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.options.input_files import check_readable
from autotune.cli.options.shared_options import options_of
from autotune.errors import UsageError
from records.log_set import log_files
from records.tools.line_filter import LineFilter
from records.tools.log_lines import LogFile, LogLine, every_line, records_of

if TYPE_CHECKING:
    from autotune.reuse.current_templates import CurrentTemplates

Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE ...",
        help="Logs, folders of logs, or measurements of other tools; compressed or not.",
    ),
]
Known = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILE ...",
        help="Templates in files that count, too: file.py:function or file.tile.",
    ),
]


def opened_logs(files: Sequence[str]) -> list[LogFile]:
    """Return the logs of some words of a command line; a folder may also be a database.

    UsageError or RecordError if one of them is not there, or cannot be read.
    """
    found = log_files(files)
    for path in found:
        if not path.is_dir():
            check_readable(path)
    return [LogFile(path) for path in found]


@dataclass(frozen=True)
class RecordChoice:
    """Logs, and which of their records are meant: what `takes_records` makes of the command line.

    `files`: the words that name the logs.
    `logs`: the logs as they were when the command began.
    `line_filter`: tells which records are meant.
    `templates`: are asked what is gone or outdated.
    """

    files: list[str]
    logs: list[LogFile]
    line_filter: LineFilter
    templates: CurrentTemplates

    def records(self) -> Iterator[LogLine]:
        """Yield the records that are meant."""
        return filter(self.line_filter, records_of(every_line(self.logs)))

    @property
    def paths(self) -> list[Path]:
        """The files that are read."""
        return [log.path for log in self.logs if not log.path.is_dir()]

    @property
    def is_filtered(self) -> bool:
        """Whether not all records are meant."""
        return self.line_filter != LineFilter()

    @property
    def name(self) -> str:
        """The logs in a message."""
        return " and ".join(self.files)


def _choice(
    files: Files,
    template: Annotated[
        list[str] | None, typer.Option(metavar="NAME ...", help="Records of these templates.")
    ] = None,
    target: Annotated[
        list[str] | None, typer.Option(metavar="TARGET ...", help="Records of these targets.")
    ] = None,
    device: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT ...", help="Records of devices with this in their name."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="WHEN", help="Not older: 2026-11-28, '2026-11-28 14:00', 7d or 12h."),
    ] = None,
    before: Annotated[str | None, typer.Option(metavar="WHEN", help="Older.")] = None,
    valid: Annotated[bool, typer.Option("--valid", help="Measurements that succeeded.")] = False,
    failed: Annotated[bool, typer.Option("--failed", help="Measurements that failed.")] = False,
    conflicts: Annotated[
        bool, typer.Option("--conflicts", help="Records that `records merge` has marked.")
    ] = False,
    gone: Annotated[
        bool, typer.Option("--gone", help="Records of templates that no longer exist.")
    ] = False,
    outdated: Annotated[
        bool,
        typer.Option(
            "--outdated",
            help="Records of this kind of device that today's templates would not make again.",
        ),
    ] = False,
    known: Known = None,
) -> RecordChoice:
    from autotune.reuse.current_templates import OUTDATED, CurrentTemplates
    from records import Record

    if valid and failed:
        raise UsageError("--valid and --failed exclude each other: choose one")
    templates = CurrentTemplates(known or ())
    also: list[Callable[[LogLine], bool]] = []
    if gone:
        also.append(
            lambda line: templates.is_gone(line.outline.workload["template"], line.outline.target)
        )
    if outdated:
        also.append(lambda line: templates.problem(Record.from_line(line.data)) in OUTDATED)
    earliest = {} if since is None else {"since": moment(since, "--since")}
    latest = {} if before is None else {"before": moment(before, "--before")}
    wanted = LineFilter(
        templates=frozenset(template or ()),
        targets=frozenset(target or ()),
        devices=tuple(device or ()),
        ok=True if valid else False if failed else None,
        conflict=conflicts,
        also=tuple(also),
        **earliest,
        **latest,
    )
    return RecordChoice(files, opened_logs(files), wanted, templates)


# Lets a command take logs and options that choose records, as its first argument.
takes_records = options_of(_choice)


_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def moment(text: str, option: str) -> float:
    """Return the Unix time of a date, a date and time (local if it has no zone), or "7d" ago.

    UsageError if it is none of these.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw])", text.strip())
    if found:
        return time.time() - float(found[1]) * _UNITS_S[found[2]]
    try:
        date = datetime.fromisoformat(text.strip())
    except ValueError:
        raise UsageError(
            f"{option} must be a date such as 2026-11-28 or '2026-11-28 14:00', or an age such as "
            f"7d or 12h, not {text!r}"
        ) from None
    try:
        return date.timestamp()
    except (ValueError, OverflowError, OSError):  # in the first or last days there is no local time
        return date.replace(tzinfo=UTC).timestamp()
