"""What a workload's times are held against: its goal, and what the machine can do."""

from __future__ import annotations

import logging

from autotune.errors import AutotuneError
from autotune.measure.result import Measurer
from autotune.measure.roofline import Ceiling
from autotune.task.task import Task
from autotune.tuner.run.goal import Goal

_log = logging.getLogger(__name__)

MOST_DOUBTS = 3
"""How often the machine is measured again as something was faster than it can be."""


class Yardstick:
    """The goal of a workload and its ceiling, in seconds, as far as they are known.

    Parameters
    ----------
    task : Task
    goal : Goal or None

    Attributes
    ----------
    goal_s : float or None
        Time that reaches the goal; None if there is none, or the machine has to be measured first.
    ceiling_s : float or None
        The least time that the machine allows; None before it is measured.
    asked : bool
        Whether it was tried to measure the machine.

    Raises
    ------
    UsageError
        If the workload cannot be held against its goal.
    """

    def __init__(self, task: Task, goal: Goal | None) -> None:
        self._task = task
        self._goal = goal
        self.goal_s: float | None = None
        self.ceiling_s: float | None = None
        self.asked = False
        self._ceiling: Ceiling | None = None
        self._confirmed_s: float | None = None
        self._doubted_s: float | None = None
        self._doubts = 0
        if goal is not None:
            goal.check(task.flops)
            if not goal.needs_ceiling:
                self.goal_s = goal.seconds(*self._work, None)

    @property
    def waits(self) -> bool:
        """Whether the goal is not known before the machine is measured."""
        return self._goal is not None and self.goal_s is None

    def ask(self, measurer: Measurer) -> Ceiling | None:
        """Let the measurer find out what the machine can do; None if it cannot.

        Raises
        ------
        UsageError
            If the workload cannot be held against its goal after all.
        """
        self.asked = True
        self._take(measurer.ceiling())
        return self._ceiling

    def ask_again(self, measurer: Measurer, best_s: float | None) -> Ceiling | None:
        """Let the machine be measured again if a best time says that it was disturbed before.

        A time below the ceiling says so, and one that reaches a goal which is a share of the
        ceiling may. The larger figures count. None is returned if they are those of before.
        """
        if self._ceiling is None or best_s is None or not self._doubtful(best_s):
            return None
        before = self._ceiling
        try:
            now = measurer.ceiling()
        except AutotuneError as error:  # what is known is still the best that is known
            _log.warning("%s: %s", self._task.workload, error)
            return None
        self._take(before if now is None else before.or_higher(now))
        return None if self._ceiling == before else self._ceiling

    def _doubtful(self, best_s: float) -> bool:
        """Whether the ceiling must be measured before a best time is held against it."""
        shared = self._goal is not None and self._goal.needs_ceiling
        reached = shared and self.goal_s is not None and best_s <= self.goal_s
        if reached and best_s != self._confirmed_s:
            self._confirmed_s = best_s
            return True
        exceeded = self.ceiling_s is not None and best_s < self.ceiling_s
        if exceeded and best_s != self._doubted_s and self._doubts < MOST_DOUBTS:
            self._doubted_s, self._doubts = best_s, self._doubts + 1
            return True
        return False

    def _take(self, ceiling: Ceiling | None) -> None:
        self._ceiling = ceiling
        if ceiling is not None:
            self.ceiling_s = ceiling.of_work(*self._work)
        if self._goal is not None and (self.goal_s is None or self._goal.needs_ceiling):
            self.goal_s = self._goal.seconds(*self._work, ceiling)

    @property
    def _work(self) -> tuple[float | None, float, str]:
        """Operations, bytes, and the type of the output's elements."""
        return self._task.flops, self._task.bytes, self._task.arguments[-1].dtype
