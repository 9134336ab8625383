"""The goal of a workload and its roofline: the least time that the machine allows."""

from __future__ import annotations

import logging

from autotune.errors import AutotuneError
from autotune.measure.measurer import Measurer
from autotune.measure.roofline import Ceiling
from autotune.task.task import Task
from autotune.tuner.run.goal import Goal

_log = logging.getLogger(__name__)

MAX_REMEASURES = 3
"""How often the machine is measured again because a time was below the roofline."""


class RooflineGoal:
    """The goal of a workload and its ceiling, in seconds, as far as they are known.

    Attributes
    ----------
    goal_s : float or None
        Time that reaches the goal; None if there is none, or the machine has to be measured first.
    ceiling_s : float or None
        The least time that the machine allows; None before it is measured.
    is_measured : bool
        Whether the machine was measured, or this was tried.

    Raises
    ------
    UsageError
        If the goal does not apply to the workload.
    """

    def __init__(self, task: Task, goal: Goal | None) -> None:
        self._task = task
        self._goal = goal
        self.goal_s: float | None = None
        self.ceiling_s: float | None = None
        self.is_measured = False
        self._ceiling: Ceiling | None = None
        self._confirmed_s: float | None = None
        self._doubted_s: float | None = None
        self._remeasure_count = 0
        if goal is not None:
            goal.check(task.flops)
            if not goal.needs_ceiling:
                self.goal_s = goal.seconds(*self._work, None)

    @property
    def needs_measurement(self) -> bool:
        """Whether the goal is not known before the machine is measured."""
        return self._goal is not None and self.goal_s is None

    def measure(self, measurer: Measurer) -> Ceiling | None:
        """Measure the peak performance of the machine; return None if the measurer cannot.

        Raises
        ------
        UsageError
            If the goal does not apply to the workload.
        """
        self.is_measured = True
        self._set_ceiling(measurer.ceiling())
        return self._ceiling

    def remeasure(self, measurer: Measurer, best_s: float | None) -> Ceiling | None:
        """Measure the machine again if a best time shows that the first measurement was disturbed.

        A time below the ceiling shows this; a time that reaches a goal relative to the ceiling may
        show it. The larger figures are kept. Return None if nothing changed.
        """
        if self._ceiling is None or best_s is None or not self._needs_remeasure(best_s):
            return None
        before = self._ceiling
        try:
            now = measurer.ceiling()
        except AutotuneError as error:  # what is known is still the best that is known
            _log.warning("%s: %s", self._task.workload, error)
            return None
        self._set_ceiling(before if now is None else before.or_higher(now))
        return None if self._ceiling == before else self._ceiling

    def _needs_remeasure(self, best_s: float) -> bool:
        """Whether the ceiling must be measured again before a best time is compared with it."""
        shared = self._goal is not None and self._goal.needs_ceiling
        reached = shared and self.goal_s is not None and best_s <= self.goal_s
        if reached and best_s != self._confirmed_s:
            self._confirmed_s = best_s
            return True
        exceeded = self.ceiling_s is not None and best_s < self.ceiling_s
        if exceeded and best_s != self._doubted_s and self._remeasure_count < MAX_REMEASURES:
            self._doubted_s, self._remeasure_count = best_s, self._remeasure_count + 1
            return True
        return False

    def _set_ceiling(self, ceiling: Ceiling | None) -> None:
        self._ceiling = ceiling
        if ceiling is not None:
            self.ceiling_s = ceiling.of_work(*self._work)
        if self._goal is not None and (self.goal_s is None or self._goal.needs_ceiling):
            self.goal_s = self._goal.seconds(*self._work, ceiling)

    @property
    def _work(self) -> tuple[float | None, float, str]:
        """Operations, bytes, and the type of the output's elements."""
        return self._task.flops, self._task.bytes, self._task.arguments[-1].dtype
