"""Where a tuning run stands, as numbers: kept up to date by the loop's events."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from autotune.report.units import Work, duration_text, time_text
from autotune.tuner.events import Event, Measured, Started
from records import Record


@dataclass(frozen=True)
class Standing:
    """A run at one moment.

    Attributes
    ----------
    trial, trials : int, int or None
        Records of the workload so far, earlier runs included, and wanted in all; None for as
        many as there is time for.
    best_s : float or None
        Fastest time, in seconds.
    speed : str
        The same as a speed with its unit; empty if there is none.
    failures : mapping of str to int
        This run's failures by error code.
    left_s : float or None
        Seconds that the rest will take at this run's pace; None before its first measurement.
    improved : bool
        Whether the last measurement was the fastest so far.
    """

    trial: int
    trials: int | None
    best_s: float | None
    speed: str
    failures: Mapping[str, int]
    left_s: float | None
    improved: bool

    def parts(self) -> list[str]:
        """Return what there is to say, most important first."""
        said = []
        if self.best_s is not None:
            said.append(f"best {time_text(self.best_s)}, {self.speed}")
        if self.left_s is not None and self.trial != self.trials:
            said.append(f"{duration_text(self.left_s)} left")
        if self.failures:
            said.append(failures_text(self.failures))
        return said


class Progress:
    """Follows a run by its events.

    Parameters
    ----------
    work : Work
        What one run of the kernel amounts to.
    clock : callable
        Seconds that only ever grow.
    """

    def __init__(self, work: Work, clock: Callable[[], float] = time.monotonic) -> None:
        self._work = work
        self._clock = clock
        self._begin = clock()
        self._failures: Counter[str] = Counter()
        self._measured = 0
        self.standing = Standing(0, 0, None, "", {}, None, False)

    def take(self, event: Event) -> Standing:
        """Take in an event and return where the run stands now."""
        if isinstance(event, Started):
            self._begin = self._clock()
            self.standing = self._stand(event.recorded, event.trials, event.best, None, False)
        elif isinstance(event, Measured):
            self._measured += 1
            error = event.record.error
            if error is not None:
                self._failures[error["code"]] += 1
            left_s = event.left_s
            if left_s is None and event.trials is not None:
                pace = (self._clock() - self._begin) / self._measured
                left_s = pace * (event.trials - event.trial)
            improved = event.best is event.record
            self.standing = self._stand(event.trial, event.trials, event.best, left_s, improved)
        return self.standing

    def _stand(
        self,
        trial: int,
        trials: int | None,
        best: Record | None,
        left_s: float | None,
        improved: bool,
    ) -> Standing:
        cost_s = None if best is None else best.cost_s
        speed = "" if cost_s is None else self._work.speed_text(cost_s)
        return Standing(trial, trials, cost_s, speed, dict(self._failures), left_s, improved)


def failures_text(failures: Mapping[str, int]) -> str:
    """Return failures by kind, the commonest first: "3 failed (2 run timeout, 1 wrong answer)"."""
    kinds = sorted(failures.items(), key=lambda pair: (-pair[1], pair[0]))
    said = ", ".join(f"{count} {code.lower().replace('_', ' ')}" for code, count in kinds)
    return f"{sum(failures.values())} failed ({said})"
