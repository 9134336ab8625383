"""When a session ends: at a limit, at its goal, or when too little gain is expected."""

from __future__ import annotations

from collections.abc import Callable

from autotune.measure.measurer import Measurer
from autotune.measure.roofline import Ceiling
from autotune.task.task import Task
from autotune.tuner.base import Tuner
from autotune.tuner.run.events import End
from autotune.tuner.run.limits import Deadline, Limits
from autotune.tuner.run.patience import Patience
from autotune.tuner.run.roofline_goal import RooflineGoal
from autotune.tuner.run.trials import Trials


class StopConditions:
    """Says whether a session goes on; measures the machine, which a goal may depend on.

    Parameters
    ----------
    measurer : Measurer
        Measures the machine.
    tuner : Tuner
        Patience depends on its estimate.
    trials : Trials
        What is measured so far.
    search_share : float
        Share of the time after which no trial begins any more.
    announce : callable
        Is told what the machine can do, each time that this is measured.

    Attributes
    ----------
    deadline : Deadline
        When to end in any case; at first there is none.
    why : str
        Why the session ended, in words, where there is more to say; else empty.

    Raises
    ------
    UsageError
        If the tuner has no estimate for patience, or the workload cannot be held against its goal.
    """

    def __init__(
        self,
        task: Task,
        measurer: Measurer,
        tuner: Tuner,
        trials: Trials,
        limits: Limits,
        search_share: float,
        announce: Callable[[Ceiling], object],
    ) -> None:
        self.deadline = Deadline()
        self.why = ""
        self._measurer = measurer
        self._trials = trials
        self._limits = limits
        self._search_share = search_share
        self._announce = announce
        self._patience = None if limits.patience is None else Patience(tuner, limits.patience)
        self._goal = RooflineGoal(task, limits.goal)

    @property
    def ceiling_s(self) -> float | None:
        """The least time that the machine allows; None before it is measured."""
        return self._goal.ceiling_s

    @property
    def limit(self) -> End | None:
        """Which limit is reached, if one is, whatever is expected of going on."""
        best_s, goal_s = self._trials.best_s, self._goal.goal_s
        if goal_s is not None and best_s is not None and best_s <= goal_s:
            return End.GOAL
        if self._limits.trials is not None and len(self._trials) >= self._limits.trials:
            return End.TRIALS
        return End.TIME if self.search_left_s == 0.0 else None

    @property
    def search_left_s(self) -> float | None:
        """Seconds in which trials may begin; None for any. The rest is for the final comparison."""
        return self.deadline.part(self._search_share).left_s

    def end(self, gain: float | None) -> End | None:
        """Return why to go on no further, if there is a reason now.

        Parameters
        ----------
        gain : float or None
            The gain that the tuner expects of further measurements.
        """
        if self._goal.needs_measurement:
            self.measure_machine()
        self._confirm_ceiling()
        end = self.limit
        if end is End.GOAL:
            self.why = f"the goal {self._limits.goal} is reached"
        if end is None and self._patience is not None:
            self.why = self._patience.reason_to_stop(gain) or ""
            end = End.PATIENCE if self.why else None
        return end

    def measure_machine(self) -> None:
        """Let the measurer find out what the machine can do, once."""
        if not self._goal.is_measured:
            self._tell(self._goal.measure(self._measurer))

    def _confirm_ceiling(self) -> None:
        """Measure the machine again before a time below the roofline is accepted."""
        self._tell(self._goal.remeasure(self._measurer, self._trials.best_s))

    def _tell(self, ceiling: Ceiling | None) -> None:
        if ceiling is not None:
            self._announce(ceiling)

    def recheck_goal(self) -> None:
        """Say so if only a lucky trial has reached the goal."""
        chosen, goal_s = self._trials.chosen, self._goal.goal_s
        if chosen is not None and goal_s is not None and chosen.cost_s > goal_s:
            goal = self._limits.goal
            self.why = f"a trial has reached the goal {goal}; the final comparison has not"
