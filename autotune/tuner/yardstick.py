"""What a workload's times are held against: its goal, and what the machine can do."""

from __future__ import annotations

from autotune.measure.ceiling import Ceiling
from autotune.measure.result import Measurer
from autotune.task import Task
from autotune.tuner.goal import Goal


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
        ceiling = measurer.ceiling()
        if ceiling is not None:
            self.ceiling_s = ceiling.of_work(*self._work)
        if self._goal is not None and self.goal_s is None:
            self.goal_s = self._goal.seconds(*self._work, ceiling)
        return ceiling

    @property
    def _work(self) -> tuple[float | None, float, str]:
        """Operations, bytes, and the type of the output's elements."""
        return self._task.flops, self._task.bytes, self._task.arguments[-1].dtype
