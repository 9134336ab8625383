"""When a session ends: at a limit, at its goal, or when too little gain is expected."""

from __future__ import annotations

import logging
from collections.abc import Callable

from autotune.errors import AutotuneError
from autotune.measure.measurer import Measurer
from autotune.measure.roofline import Ceiling
from autotune.task.task import Task
from autotune.tuner.base import Tuner
from autotune.tuner.run.events import End
from autotune.tuner.run.limits import Deadline, Limits, Patience
from autotune.tuner.run.trials import Trials

_log = logging.getLogger(__name__)

MAX_REMEASURES = 3  # How often the machine is measured again because a time was below the roofline.


class StopConditions:
    """Says whether a session goes on; measures the machine, which a goal may depend on.

    measurer: measures the machine.
    tuner: patience depends on its estimate.
    trials: what is measured so far.
    search_share: share of the time after which no trial begins any more.
    announce: is told what the machine can do, each time that this is measured.

    UsageError if the tuner has no estimate for patience, or the goal does not apply to the
    workload.
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
        self.deadline = Deadline()  # when to end in any case; at first there is none
        self.why = ""  # why the session ended, in words, where there is more to say; else empty
        # The least time that the machine allows (the roofline); None before it is measured.
        self.ceiling_s: float | None = None
        self._task = task
        self._measurer = measurer
        self._trials = trials
        self._limits = limits
        self._search_share = search_share
        self._announce = announce
        self._patience = None if limits.patience is None else Patience(tuner, limits.patience)
        self._is_measured = False
        self._ceiling: Ceiling | None = None
        self._confirmed_s: float | None = None
        self._doubted_s: float | None = None
        self._remeasure_count = 0
        self._goal_s: float | None = None
        if limits.goal is not None:
            limits.goal.check(task.flops)
            if not limits.goal.needs_ceiling:
                self._goal_s = limits.goal.seconds(*self._work, None)

    @property
    def limit(self) -> End | None:
        """The limit that is reached, if one is; expected gains do not count here."""
        best_s = self._trials.best_s
        if self._goal_s is not None and best_s is not None and best_s <= self._goal_s:
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

        `gain` is what the tuner expects further measurements to gain.
        """
        if self._limits.goal is not None and self._goal_s is None:
            self.measure_machine()
        self._confirm_ceiling()
        end = self.limit
        if end is End.GOAL:
            self.why = f"the goal {self._limits.goal} is reached"
        if end is None and self._patience is not None:
            self.why = self._patience.reason_to_stop(gain) or ""
            end = End.PATIENCE if self.why else None
        return end

    def recheck_goal(self) -> None:
        """Say so if only a lucky trial has reached the goal."""
        chosen = self._trials.chosen
        if chosen is not None and self._goal_s is not None and chosen.cost_s > self._goal_s:
            goal = self._limits.goal
            self.why = f"a trial has reached the goal {goal}; the final comparison has not"

    # -- what the machine can do -----------------------------------------------------------

    def measure_machine(self) -> None:
        """Let the measurer measure the machine's peak, once."""
        if not self._is_measured:
            self._is_measured = True
            self._set_ceiling(self._measurer.ceiling())

    def _confirm_ceiling(self) -> None:
        """Measure the machine again if a best time shows that the first measurement was disturbed.

        A time below the ceiling shows this; a time that reaches a goal relative to the ceiling may
        show it. The larger figures are kept.
        """
        best_s = self._trials.best_s
        if self._ceiling is None or best_s is None or not self._is_doubtful(best_s):
            return
        try:
            now = self._measurer.ceiling()
        except AutotuneError as error:  # the known record is still the best
            _log.warning("%s: %s", self._task.workload, error)
            return
        if now is not None:
            self._set_ceiling(self._ceiling.or_higher(now))

    def _is_doubtful(self, best_s: float) -> bool:
        """Whether the ceiling must be measured again before a best time is compared with it."""
        goal = self._limits.goal
        shared = goal is not None and goal.needs_ceiling
        reached = shared and self._goal_s is not None and best_s <= self._goal_s
        if reached and best_s != self._confirmed_s:
            self._confirmed_s = best_s
            return True
        exceeded = self.ceiling_s is not None and best_s < self.ceiling_s
        if exceeded and best_s != self._doubted_s and self._remeasure_count < MAX_REMEASURES:
            self._doubted_s, self._remeasure_count = best_s, self._remeasure_count + 1
            return True
        return False

    def _set_ceiling(self, ceiling: Ceiling | None) -> None:
        """Store the speeds of the machine, None if they are not known; announce new ones."""
        goal = self._limits.goal
        if ceiling is not None:
            self.ceiling_s = ceiling.of_work(*self._work) or None  # no time without any work
        if goal is not None and goal.needs_ceiling:
            self._goal_s = goal.seconds(*self._work, ceiling)
        if ceiling is not None and ceiling != self._ceiling:
            self._ceiling = ceiling
            self._announce(ceiling)

    @property
    def _work(self) -> tuple[float | None, float, str]:
        """Operations, bytes, and the type of the output's elements."""
        return self._task.flops, self._task.bytes, self._task.arguments[-1].dtype
