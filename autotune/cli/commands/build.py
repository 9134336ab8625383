"""`autotune build`: the best configuration as a shared library with a C header."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

from autotune.cli.commands.best import BY_TRIALS
from autotune.cli.options.task_arguments import load_logs, make_task, work_of
from autotune.cli.terminal.output import print_line
from autotune.cli.terminal.signals import ending_signals


def build_command(
    template: str,
    settings: Sequence[str],
    shapes: Sequence[str],
    target: str,
    logs: Sequence[str],
    output: str | None,
    name: str | None,
) -> None:
    """Build, save, and say what was saved.

    Raises
    ------
    UsageError, RecordError, SaveError
        If an argument or a log is not what it should be, or a file cannot be written.
    """
    from autotune.builder import build_task
    from autotune.report.units import time_text
    from autotune.runtime.save_library import check_can_save

    with ending_signals(), redirect_stdout(sys.stderr):  # what a template prints was not asked for
        warnings.filterwarnings("ignore", "no records given")  # the line below says so
        task = make_task(template, settings, shapes, target)
        records = load_logs(logs) if logs else None
        path = Path(output if output is not None else f"{task.template.name}.so")
        check_can_save(path, task.target)
        function = build_task(task, records, name)
        function.save(path)
        work = work_of(task)
    assert function.config is not None  # a task's always has one
    chosen = f"config {function.config.index}"
    if function.record is None:
        chosen += ", the default one (`autotune run` tunes it)"
    else:
        cost_s = function.record.cost_s
        chosen += f", {time_text(cost_s)}, {work.speed_text(cost_s)} in {' and '.join(logs)}"
        if function.record.is_trial:
            chosen += f" ({BY_TRIALS})"
    print_line(f"{path} and {path.with_suffix('.h')}: {task.workload} on {task.target}, {chosen}")
