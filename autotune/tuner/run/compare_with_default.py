"""Times a chosen configuration and the default in turns, before the build uses one of them."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

from autotune.errors import AutotuneError
from autotune.measure.local_measurer import LocalMeasurer
from autotune.task.task import Task
from search_spaces import Config

ROUNDS = 5
ROUND_S = 0.05  # Seconds of timing in a round, about.
LOST = 2  # Rounds that may fail before the configuration is given up.


@dataclass(frozen=True)
class GuardResult:
    """The result of a comparison with the default.

    `over_default`: how many times as fast as the default the configuration is, the median of the
        rounds; infinite if the default failed, None if it could not be timed.
    `why`: why it could not be timed, or gave a wrong answer; else empty.
    """

    over_default: float | None
    why: str = ""

    @property
    def keeps(self) -> bool:
        """Whether the configuration is not slower than the default."""
        return self.over_default is not None and self.over_default >= 1.0


def compare_with_default(task: Task, config: Config, timeout_s: float = 10.0) -> GuardResult:
    """Check and time a configuration and the task's default in turns, in a worker process.

    `timeout_s`: seconds that each may take to build, and again for its first calls.

    UsageError if the template cannot be measured.
    """
    default = task.space.config(task.default_index)
    if config.index == default.index:
        return GuardResult(1.0)
    ratios: list[float] = []
    reference, text = task.worker_source
    with LocalMeasurer(
        reference,
        task.args,
        task.target,
        timeout_s=timeout_s,
        text=text,
        constant=task.constant,
        name=task.template.name,
    ) as measurer:
        lost = 0
        for number in range(ROUNDS):
            first = number == 0
            try:
                (found,) = measurer.compare([config, default], ROUND_S, number, first, first)
            except AutotuneError as error:
                return GuardResult(None, str(error))
            chosen, beside = found.get(config.index), found.get(default.index)
            if chosen is not None and chosen.error is not None:
                return GuardResult(None, f"{chosen.error.code}: {chosen.error.message}")
            if chosen and chosen.cost_s and beside and beside.error is not None:
                return GuardResult(math.inf)
            if chosen and beside and chosen.cost_s and beside.cost_s:
                ratios.append(beside.cost_s / chosen.cost_s)
            elif (lost := lost + 1) == LOST:
                return GuardResult(None, f"{LOST} of {number + 1} rounds of timing failed")
    return GuardResult(statistics.median(ratios))
