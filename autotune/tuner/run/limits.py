"""When enough has been measured: trials, time, a goal, or nothing more to gain; and the pace."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from autotune.errors import UsageError
from autotune.tuner.run.goal import Goal
from autotune.tuner.run.patience import check_share

BATCH = 8
"""Candidates asked for at once: the model learns after each batch."""

LATEST = 4
"""Batches over which the pace is taken."""


@dataclass(frozen=True)
class Limits:
    """When a workload is tuned no further; what comes first counts.

    Attributes
    ----------
    trials : int or None
        Records wanted in the log, earlier ones included; None for as many as there are.
    goal : Goal or None
        Enough is what reaches it.
    patience : float or None
        Stop when the tuner expects less than this share of gain from all further measurements.
    batch : int
        Candidates asked for at once.

    Raises
    ------
    UsageError
        If a number makes no sense.
    """

    trials: int | None = None
    goal: Goal | None = None
    patience: float | None = None
    batch: int = BATCH

    def __post_init__(self) -> None:
        if (self.trials is not None and self.trials < 0) or self.batch < 1:
            raise UsageError(
                f"trials must be >= 0 and batch >= 1, not {self.trials} and {self.batch}"
            )
        if self.patience is not None:
            check_share(self.patience)


class Deadline:
    """The end of a run's time.

    Parameters
    ----------
    seconds : float or None
        Time there is; None for any.
    clock : callable
        Returns monotonic seconds.
    begin : float, optional
        When the time began, by this clock; by default now.
    """

    def __init__(
        self,
        seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        begin: float | None = None,
    ) -> None:
        self._clock = clock
        self._seconds = seconds
        self._started = clock() if begin is None else begin

    def part(self, share: float) -> Deadline:
        """Return the end of the first part of the time."""
        seconds = None if self._seconds is None else share * self._seconds
        return Deadline(seconds, self._clock, self._started)

    @property
    def left_s(self) -> float | None:
        """Seconds until then, >= 0; None if there is no end."""
        if self._seconds is None:
            return None
        return max(0.0, self._started + self._seconds - self._clock())

    @property
    def over(self) -> bool:
        """Whether no measurement may begin any more."""
        return self.left_s == 0.0


class TrialPace:
    """How long a trial takes lately: the mean over the latest batches, the current one included.

    Parameters
    ----------
    clock : callable
        Returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._done: deque[tuple[float, int]] = deque(maxlen=LATEST)
        self._begin: float | None = None
        self._count = 0

    @contextlib.contextmanager
    def batch(self) -> Iterator[None]:
        """Count the time spent inside."""
        self._begin, self._count = self._clock(), 0
        try:
            yield
        finally:
            if self._count:
                self._done.append((self._clock() - self._begin, self._count))
            self._begin, self._count = None, 0

    def count(self) -> None:
        """Count a trial of the current batch."""
        self._count += 1

    @property
    def mean_s(self) -> float | None:
        """Seconds per trial; None before the first."""
        seconds = sum(taken for taken, _ in self._done)
        trials = sum(count for _, count in self._done)
        if self._begin is not None and self._count:
            seconds += self._clock() - self._begin
            trials += self._count
        return seconds / trials if trials else None
