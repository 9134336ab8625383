"""The tuner's side of a session: it is told results, and works beside the builds."""

from __future__ import annotations

from collections.abc import Callable

from autotune.tuner.base import Observation, Tuner
from autotune.tuner.run.background import BackgroundTask

LONG_RUN = 24  # With more trials a run is long: its tuner will need everything it has.


class Learner:
    """Collects observations, and lets the tuner learn from them.

    trials_left: returns how many trials there may still be.
    at_once: whether the gain is estimated as soon as there are results, for a choice that depends
        on it; else it is estimated beside the builds.
    """

    def __init__(self, tuner: Tuner, trials_left: Callable[[], float], at_once: bool) -> None:
        # By what share of the best time the tuner expects all further measurements to better it.
        self.gain: float | None = None
        self.at_once = at_once
        # The tuner's work beside the present builds.
        self.background = BackgroundTask(lambda _: None)
        self._tuner = tuner
        self._trials_left = trials_left
        self._untold: list[Observation] = []
        self._due = True
        self._preparations = tuner.preparations()

    def add(self, observation: Observation) -> None:
        """Keep an observation until the tuner learns it."""
        self._untold.append(observation)

    def learn(self, goes_on: bool) -> None:
        """Tell the tuner what is new; estimate the gain, if that is due and the run goes on."""
        untold, self._untold = self._untold, []
        self._tuner.tell(untold)
        self._due = True
        if self.at_once and goes_on:
            self._estimate()

    def beside_builds(self, unmeasured: int) -> BackgroundTask:
        """Return what the tuner does beside builds, when so many of a batch are not measured."""
        self.background = BackgroundTask(lambda waited_for: self._work(unmeasured, waited_for))
        return self.background

    def _work(self, unmeasured: int, waited_for: Callable[[], bool]) -> None:
        """Do what proposals after this batch will need."""
        self._estimate()
        if self._trials_left() > unmeasured:
            self._tuner.think()
        while self._trials_left() > LONG_RUN and not waited_for():
            if next(self._preparations, self) is self:
                break

    def _estimate(self) -> None:
        """Ask the tuner for the expected gain, once after each batch of results."""
        if self._due:
            self._due = False
            self.gain = self._tuner.expected_gain()
