"""`autotune records summary`: what a log holds, by workload and target."""

from __future__ import annotations

import json
from dataclasses import asdict

from autotune.cli.options.input_files import check_readable
from autotune.cli.options.task_arguments import load_log
from autotune.cli.terminal.output import print_line, width


def summary_command(file: str, as_json: bool) -> None:
    """Print a block (or a JSON object) per workload and target, also of other tools' files.

    Raises
    ------
    RecordError
        If the log is missing or cannot be read.
    """
    from records import summary
    from records.formats import foreign_format, read_any

    foreign = foreign_format(check_readable(file)) is not None
    rows = summary(read_any(file) if foreign else load_log(file))
    if as_json:
        print_line(json.dumps([asdict(row) for row in rows]))
        return
    if not rows:
        print_line(f"{file} holds no records")
        return
    from autotune.report.log_summary import log_summary_text

    print_line("\n".join(log_summary_text(row, width()) for row in rows))
