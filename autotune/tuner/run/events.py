"""Events of a tuning run as plain data, for displays and scripts.

The display and scripts see nothing else of a run. Each event names its job, the workload that it
is about; in a run of one workload that is "".
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from autotune.measure.result import MeasureResult
from autotune.measure.roofline import Ceiling
from autotune.tuner.run.final_comparison import ComparisonRound
from records import Record


class End(StrEnum):
    """Why the tuning of a workload ended."""

    TRIALS = "trials"  # The log holds as many records as were asked for.
    TIME = "time"  # The time is over.
    GOAL = "goal"  # The best time is as good as was asked for.
    PATIENCE = "patience"  # Too little gain is expected of further measurements.
    EXHAUSTED = "exhausted"  # The tuner has nothing more to propose.
    FAILED = "failed"  # The workload cannot be measured at all; the others of the run go on.


@dataclass(frozen=True)
class Started:
    """A workload is about to be tuned."""

    trials: int | None  # Records wanted in all; None for as many as there is time for.
    recorded: int  # How many of them were found in the log.
    best: Record | None  # The fastest of these.
    job: str = ""
    # Median time of the default configuration, in seconds, if the log knows it.
    default_cost_s: float | None = None


@dataclass(frozen=True)
class MachineKnown:
    """The peak performance of the machine was measured."""

    machine: Ceiling
    # The least time of one run of this workload, in seconds: its operations at the peak, or its
    # arrays' bytes at the copying rate, the longer of both; None if neither is known.
    ceiling_s: float | None
    job: str = ""


@dataclass(frozen=True)
class Measured:
    """One candidate was measured and recorded."""

    trial: int  # its number, counted from 1 over all records of the workload
    trials: int | None  # how many there will be; None for as many as there is time for
    record: Record
    result: MeasureResult
    best: Record | None  # the fastest so far, this one included
    job: str = ""
    # By what share of the best time the tuner expects all further measurements to better it; an
    # estimate made before this batch. None from a tuner that cannot tell, or not yet.
    expected_gain: float | None = None
    # Seconds until the whole run ends, at this run's pace and with what ends it; None if that is
    # not known.
    left_s: float | None = None


@dataclass(frozen=True)
class Noisy:
    """The machine is busy with something else: measured times are not reliable."""

    noise: float  # Relative spread of the times of a reference kernel.
    job: str = ""


@dataclass(frozen=True)
class Compared:
    """The finalists were timed in turns once more."""

    round: ComparisonRound
    job: str = ""


@dataclass(frozen=True)
class TuneSummary:
    """The result of a run for one workload."""

    trials: int  # Records of the workload in the log now.
    measured: int  # How many of them this run added.
    failures: Mapping[str, int]  # Failed records by error code.
    # The record that a build uses: the choice of the final comparison; without one, the fastest.
    best: Record | None
    # Times of the space's default configuration, one per round of that comparison or one per
    # repeat; None if it failed or was not timed.
    default_costs_s: tuple[float, ...] | None
    ended: End  # Why no more was measured.
    elapsed_s: float  # Wall time of this run.
    why: str = ""  # `ended` in words, where there is more to say; else empty.
    ceiling_s: float | None = None  # As in `MachineKnown`; None if it was not measured.
    # Proposals of this run that were not built, no trials, by the rule that rejects them. Only what
    # the space does not know beforehand is proposed and refused.
    refused: Mapping[str, int] = field(default_factory=dict)
    # Proposals of this run that were the program of another one: no trials either.
    copies: int = 0
    # Why this run made no final comparison, in words; empty if it did, or did not need one.
    no_finals: str = ""
    # The record of the default, of the same comparison as the best; None if there is none.
    default: Record | None = None
    # The first of the failures, in words; empty if there is none.
    first_error: str = ""

    @property
    def default_cost_s(self) -> float | None:
        """Median time of the default configuration; None if there is none."""
        return None if self.default_costs_s is None else statistics.median(self.default_costs_s)


@dataclass(frozen=True)
class Finished:
    """The tuning of a workload has ended."""

    summary: TuneSummary
    job: str = ""


Event = Started | MachineKnown | Measured | Noisy | Compared | Finished
EventCallback = Callable[[Event], object]


def ignore_event(event: Event) -> None:
    """Ignore the event."""
