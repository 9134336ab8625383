"""The limits of a tuning run, and the pace at which it approaches them.

A limit is a number of trials, a time, a goal for the best speed, or too little expected gain.
"""

from __future__ import annotations

import contextlib
import math
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autotune.errors import UsageError

if TYPE_CHECKING:
    from autotune.measure.roofline import Ceiling
    from autotune.tuner.base import Tuner

EXAMPLES = "'1.2 ms', '200 GFLOPS', '50 GB/s', '0.9 of copy', '0.8 of peak' or '0.8 of ceiling'"

_TIMES = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_FLOPS = {"GFLOPS": 1e9, "TFLOPS": 1e12}
_BYTES = {"GB/s": 1e9, "TB/s": 1e12}
_SHARES = ("copy", "peak", "ceiling")
_UNITS = {unit.lower(): unit for unit in (*_TIMES, *_FLOPS, *_BYTES, *_SHARES)}
_FORM = re.compile(r"\s*([\d.]+(?:e[+-]?\d+)?)\s*(%?)\s*(of\s+)?([a-z/]+)\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Goal:
    """The goal for the best time."""

    value: float  # How many `unit`, or which share of it; > 0.
    # "s", "GFLOPS" and the like; or "copy", "peak" or "ceiling": the bytes of the arrays at the
    # measured copying rate, the operations at the measured peak, or the longer of both.
    unit: str

    @classmethod
    def parse(cls, text: str) -> Goal:
        """Read "0.9 of copy", "80% of peak", "200 GFLOPS", "50 GB/s" or "1.2 ms".

        UsageError if the text has none of these forms.
        """
        found = _FORM.fullmatch(text)
        unit = _UNITS.get(found[4].lower()) if found else None
        if found is None or unit is None or bool(found[3]) != (unit in _SHARES):
            raise UsageError(f"a goal is {EXAMPLES}, not {text!r}")
        try:
            value = float(found[1]) * (0.01 if found[2] else 1.0)
        except ValueError:
            value = math.nan
        if not 0.0 < value < math.inf or (found[2] and unit not in _SHARES):
            raise UsageError(f"a goal is {EXAMPLES}, not {text!r}")
        if unit in _SHARES and value > 1.0:
            raise UsageError(f"goal {text!r}: a share of what the machine can do is at most 1")
        return cls(value, unit)

    def __str__(self) -> str:
        return f"{self.value:g} {'of ' if self.needs_ceiling else ''}{self.unit}"

    @property
    def needs_ceiling(self) -> bool:
        """Whether it is a share of the machine's peak."""
        return self.unit in _SHARES

    def check(self, flops: float | None) -> None:
        """Raise UsageError if this goal needs operations that the kernel does not have."""
        if not flops and (self.unit in _FLOPS or self.unit == "peak"):
            raise UsageError(
                f"goal {str(self)!r}: the template does not say how many operations it needs; "
                "give a time, or a speed in GB/s"
            )

    def seconds(
        self, flops: float | None, touched_bytes: float, dtype: str, ceiling: Ceiling | None
    ) -> float:
        """Return the time of one run of a kernel that reaches the goal.

        flops: its operations, if known.
        touched_bytes: bytes of its arrays.
        dtype: type of its elements.
        ceiling: what the machine can do; needed for shares of it only.

        UsageError if such a kernel cannot be held against this goal.
        """
        self.check(flops)
        work = 0.0 if flops is None else flops
        if self.unit in _TIMES:
            return self.value * _TIMES[self.unit]
        if self.unit in _FLOPS:
            return work / (self.value * _FLOPS[self.unit])
        if self.unit in _BYTES:
            return touched_bytes / (self.value * _BYTES[self.unit])
        if ceiling is None:
            raise UsageError(f"goal {str(self)!r}: what the machine can do is not known here")
        if self.unit == "copy":
            return touched_bytes / ceiling.copy_bytes_s / self.value
        if self.unit == "ceiling":
            return ceiling.of_work(flops, touched_bytes, dtype) / self.value
        if dtype not in ceiling.peak_flops:
            raise UsageError(f"goal {str(self)!r}: no peak is measured for {dtype}")
        return work / ceiling.peak_flops[dtype] / self.value


TRIALS = 64  # Trials of a workload where neither they nor the time are given.

BATCH = 8  # Candidates asked for at once: the model learns after each batch.

# The expected gain must stay low over this many measurements: a model may be sure too early.
CALM = 8

LATEST = 4  # Batches over which the pace is taken.


@dataclass(frozen=True)
class Limits:
    """When the tuning of a workload ends; the limit that is reached first counts.

    UsageError if a number makes no sense.
    """

    # Records wanted in the log, earlier ones included; None for as many as there are.
    trials: int | None = None
    goal: Goal | None = None  # enough is what reaches it
    # Stop when the tuner expects less than this share of gain from all further measurements.
    patience: float | None = None
    batch: int = BATCH  # candidates asked for at once

    def __post_init__(self) -> None:
        if (self.trials is not None and self.trials < 0) or self.batch < 1:
            raise UsageError(
                f"trials must be >= 0 and batch >= 1, not {self.trials} and {self.batch}"
            )
        if self.patience is not None:
            check_share(self.patience)


def check_share(share: float) -> None:
    """Raise UsageError unless patience is a share."""
    if not (math.isfinite(share) and 0.0 < share < 1.0):
        raise UsageError(
            f"patience is a share between 0 and 1, such as 0.01 for 1 %, not {share:g}"
        )


def parse_duration(value: object) -> float:
    """Read "90s", "30m", "1h30m" or "1.5h" as seconds.

    UsageError if it is no such text.
    """
    units = {"h": 3600.0, "m": 60.0, "s": 1.0}
    text = value if isinstance(value, str) else ""
    parts = re.findall(r"([\d.]+)\s*([a-z]+)\s*", text)
    written = [unit for _, unit in parts]
    in_order = sorted(set(written), key=list("hms").index) if set(written) <= set("hms") else []
    if in_order and in_order == written and re.fullmatch(r"(\s*[\d.]+\s*[hms]\s*)+", text):
        try:
            seconds = sum(float(number) * units[unit] for number, unit in parts)
        except ValueError:
            seconds = 0.0
        if seconds > 0:
            return seconds
    raise UsageError(f"must be a time > 0 such as 90s, 30m or 1h30m, not {value!r}")


class Patience:
    """Says when further measurements are not worth their while.

    tuner: one that estimates the gain of going on.
    share: stop when the expected gain, as a share of the best time so far, is below this.

    UsageError if `share` is not between 0 and 1, or the tuner estimates no gain.
    """

    def __init__(self, tuner: Tuner, share: float) -> None:
        check_share(share)
        if not tuner.estimates_gain:
            raise UsageError("patience needs a tuner that estimates its gain: use the tuner model")
        self._tuner = tuner
        self._share = share
        self._low_since: int | None = None

    def reason_to_stop(self, gain: float | None) -> str | None:
        """Return why to stop now, by the tuner's estimate of its gain; None to go on.

        Asked before each proposal.
        """
        if gain is None:
            return None
        known = len(self._tuner.observations)
        if gain >= self._share:
            self._low_since = None
            return None
        if self._low_since is None:
            self._low_since = known
        if known < self._low_since + CALM:
            return None
        return (
            f"further measurements are expected to gain {100 * gain:.2g} %, "
            f"less than the {100 * self._share:g} % asked for"
        )


class Deadline:
    """The end of a run's time.

    seconds: length of the run; None if it is not limited.
    clock: returns monotonic seconds.
    begin: the begin of the run, by this clock; by default now.
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

    clock: returns monotonic seconds.
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
