"""What a log holds, as lines of text."""

from __future__ import annotations

import time

from autotune.report.progress import failures_text
from autotune.report.text_tables import wrap
from autotune.report.units import time_text
from autotune.system.words import counted
from autotune.task.workload import Workload
from records import SummaryRow


def log_summary_text(row: SummaryRow, width: int) -> str:
    """Return what a log holds of one workload, as a block of lines."""
    workload = Workload(row.template, row.args, row.constant)
    lines = [wrap(f"{workload} on {row.target}", width, "    ")]
    counts = f"{counted(row.trials, 'trial')}, {row.ok} ok"
    if row.failures:
        counts += f", {failures_text(row.failures)}"
    lines.append(wrap(f"  {counts}", width, "    "))
    if row.best_cost_s is not None:
        how = "" if row.compared else ", of trials: no final comparison"
        lines.append(f"  best {time_text(row.best_cost_s)}, config {row.best_index}{how}")
    lines.append(f"  {_moment(row.first_s)} to {_moment(row.last_s)}")
    return "\n".join(lines)


def _moment(seconds: float) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
    except (OverflowError, OSError, ValueError):  # no calendar reaches as far
        return f"{seconds:g} s"
