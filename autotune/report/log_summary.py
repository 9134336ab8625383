"""What a log holds, as lines of text."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from autotune.report.progress import failures_text
from autotune.report.text_tables import wrap
from autotune.report.units import time_text, trials_text
from records import SummaryRow


def workload_text(template: str, args: Mapping[str, Any], target: str) -> str:
    """Return a workload as a call: "matmul(m=512, n=512) on llvm"."""
    return f"{template}({', '.join(f'{k}={v}' for k, v in args.items())}) on {target}"


def log_summary_text(row: SummaryRow, width: int) -> str:
    """Return what a log holds of one workload, as a block of lines."""
    lines = [wrap(workload_text(row.template, row.args, row.target), width, "    ")]
    counts = f"{trials_text(row.trials)}, {row.ok} ok"
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
