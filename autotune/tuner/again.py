"""The last measurements of a run: the default and the best configuration, side by side."""

from __future__ import annotations

import logging

from autotune.errors import AutotuneError
from autotune.measure.result import MeasureInput, Measurer
from autotune.task import Task

_log = logging.getLogger(__name__)

Costs = tuple[float, ...]


def measure_again(
    task: Task, measurer: Measurer, default: int, best: int
) -> tuple[Costs, Costs] | None:
    """Return new times of two configurations, in seconds, one per repeat; None if that fails now.

    The best of many noisy times is better than the truth, and the machine may have changed since
    the default was timed. In the order default, best, best, default a steady drift of the machine
    favours neither.
    """
    costs: dict[int, Costs] = {default: (), best: ()}
    order = [task.space.config(index) for index in (default, best, best, default)]
    try:
        for candidate, result in measurer.measure(MeasureInput(c, again=True) for c in order):
            if result.error is not None:
                raise AutotuneError(result.error.message)
            costs[candidate.config.index] += result.costs_s or ()
    except AutotuneError as error:  # what was found before is worth telling all the same
        what = "what worked before has failed when measured again"
        _log.warning("%s: %s: %s", task.workload, what, error)
        return None
    return costs[default], costs[best]
