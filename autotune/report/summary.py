"""What a run achieved, and what a log holds, as lines of text."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

from autotune.report.progress import failures_text
from autotune.report.tables import wrap
from autotune.report.units import Work, duration_text, three_digits, time_text, trials_text
from autotune.tuner.events import TuneSummary
from records import SummaryRow

NOISE = 3.0
"""Slowest repeat over the fastest, beyond which a median is not compared with another."""


def workload_text(template: str, args: Mapping[str, Any], target: str) -> str:
    """Return a workload as a call: "matmul(m=512, n=512) on llvm"."""
    return f"{template}({', '.join(f'{k}={v}' for k, v in args.items())}) on {target}"


def summary_line(summary: TuneSummary, work: Work) -> str:
    """Return what a run achieved, against the default configuration, as one line."""
    said = []
    if summary.best is not None:
        cost_s = summary.best.cost_s
        said.append(f"best {time_text(cost_s)}, {work.speed_text(cost_s)}")
        said[-1] += _compared(summary.best.costs_s, summary.default_costs_s)
        said.append(f"config {summary.best.index}")
    else:
        said.append("nothing valid was found")
    said.append(trials_text(summary.trials))
    if summary.failures:
        said.append(failures_text(summary.failures))
    if summary.exhausted:
        said.append("the space holds no more")
    said.append(duration_text(summary.elapsed_s))
    return "; ".join(said)


def _compared(
    costs_s: Sequence[float] | None, default_costs_s: Sequence[float] | None
) -> str:
    """Return how much faster the best is than the default, unless noise hides it."""
    if not costs_s or not default_costs_s:
        return ""
    if max(_spread(costs_s), _spread(default_costs_s)) > NOISE:
        return ", too noisy for a ratio"
    ratio = statistics.median(default_costs_s) / statistics.median(costs_s)
    return f", {three_digits(ratio)}x the default"


def _spread(costs_s: Sequence[float]) -> float:
    return max(costs_s) / min(costs_s)


def log_summary_text(row: SummaryRow, width: int) -> str:
    """Return what a log holds of one workload, as a block of lines."""
    lines = [wrap(workload_text(row.template, row.args, row.target), width, "    ")]
    counts = f"{trials_text(row.trials)}, {row.ok} ok"
    if row.failures:
        counts += f", {failures_text(row.failures)}"
    lines.append(wrap(f"  {counts}", width, "    "))
    if row.best_cost_s is not None:
        lines.append(f"  best {time_text(row.best_cost_s)}, config {row.best_index}")
    lines.append(f"  {_moment(row.first_s)} to {_moment(row.last_s)}")
    return "\n".join(lines)


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
