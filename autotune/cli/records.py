"""`autotune records summary`: what a log holds, by workload and target."""

from __future__ import annotations

import json
from dataclasses import asdict

from autotune.cli.output import say, width
from autotune.cli.tasks import load_log


def summary_command(file: str, as_json: bool) -> None:
    """Print a block (or a JSON object) per workload and target.

    Raises
    ------
    RecordError
        If the log is missing or cannot be read.
    """
    from records import summary

    rows = summary(load_log(file))
    if as_json:
        say(json.dumps([asdict(row) for row in rows]))
        return
    if not rows:
        say(f"{file} holds no records")
        return
    from autotune.report.summary import log_summary_text

    say("\n".join(log_summary_text(row, width()) for row in rows))
