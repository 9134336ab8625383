"""`autotune records import` and `export`: measurements in the formats of other tools."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from autotune.cli.options.output_files import Force, Out, check_output
from autotune.cli.options.record_filters import Files, RecordChoice, opened_logs, takes_records
from autotune.cli.options.shared_options import Json
from autotune.cli.record_commands.records_list import Top, chosen_lines, nothing
from autotune.cli.terminal.output import NOTHING_FOUND, StopError, print_line, width
from autotune.cli.terminal.signals import ending_signals
from autotune.errors import UsageError
from autotune.report.text_tables import wrap
from autotune.system.words import counted, did_you_mean
from records import Record
from records.formats import EXPORT_FORMATS, FileFormat, Written, foreign_format, write_records
from records.tools.append import append_new
from records.tools.log_lines import LogLine, every_line, records_of
from records.tools.new_logs import new_log

OWN, DATABASE = "autotune", "metaschedule"


def import_records(
    files: Files,
    out: Annotated[
        str,
        typer.Option("--out", "-o", metavar="LOG", help="The log to append to; made if needed."),
    ],
    as_json: Json = False,
) -> None:
    """Append measurements of other tools, or of other logs, to a log of ours.

    Records that the log has already are left out. Runs may append to it at the same time.
    """
    logs = opened_logs(files)
    read = [log.path for log in logs if not log.path.is_dir()]
    path = check_output(out, True, read, appends=True)
    kind = FileFormat.COMPRESSED if path.name.endswith(".gz") else foreign_format(path)
    if kind is not None:
        raise UsageError(f"--out {out} is {kind}: only to plain logs of ours can be appended")
    with ending_signals():
        done = append_new(records_of(every_line(logs)), path)
    if as_json:
        print_line(json.dumps({"out": str(path), **asdict(done)}))
        return
    verb = "is" if done.duplicates == 1 else "are"
    already = f", {done.duplicates} {verb} there already" if done.duplicates else ""
    print_line(f"{path}: {counted(done.added, 'record')} added{already}")


@takes_records
def export_records(
    chosen: RecordChoice,
    out: Out,
    form: Annotated[
        str,
        typer.Option("--format", metavar="NAME", help=f"One of {', '.join(EXPORT_FORMATS)}."),
    ],
    top: Top = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write records in the format of another tool, or as a log of their own.

    What the format cannot hold is left out and counted, with the reason.
    """
    if form not in EXPORT_FORMATS:
        raise UsageError(f"--format {form}: {did_you_mean(form, EXPORT_FORMATS)}")
    path = _checked(out, form, force, chosen)
    with ending_signals():
        found = chosen_lines(chosen, top)
        first = next(found, None)
        if first is None:
            raise StopError(NOTHING_FOUND, f"{chosen.name}: {nothing(chosen)}")
        lines = itertools.chain([first], found)
        if form == OWN:
            done = _write_log(path, lines, force)
        else:
            done = write_records((Record.from_line(line.data) for line in lines), form, path)
    if as_json:
        report = {"out": str(path), "count": done.count, "left_out": dict(done.left_out)}
        print_line(json.dumps(report))
        return
    print_line(wrap(f"{path}: {counted(done.count, 'record')} as {form}", width(), "  "))
    for reason, count in done.left_out.most_common():
        print_line(wrap(f"  {count} left out: {reason}", width(), "    "))


def _checked(out: str, form: str, force: bool, chosen: RecordChoice) -> Path:
    """Return the path to be written; UsageError if it cannot be."""
    path = Path(out)
    if form == DATABASE and path.is_file():
        raise UsageError(f"--out {out} is a file; MetaSchedule writes a folder")
    if form == DATABASE and out and path.is_dir():
        if not force and any(path.iterdir()):
            raise UsageError(
                f"--out {out} is a folder with files: choose another, or --force replaces them"
            )
        return path
    return check_output(out, force, chosen.paths)


def _write_log(path: Path, lines: Iterable[LogLine], force: bool) -> Written:
    """Write the lines as they are, so that nothing is lost of them."""
    count = 0
    with new_log(path, force) as file:
        for line in lines:
            file.write(line.data + b"\n")
            count += 1
    return Written(count)
