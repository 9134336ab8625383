"""The status of a tuning run as numbers, updated by the run's events."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from autotune.measure.timing.noise_monitor import NOISY
from autotune.report.space_text import legal_lines
from autotune.report.units import Work, duration_text, percent_text, time_text
from autotune.task.workload import Workload
from autotune.tuner.run import events
from autotune.tuner.run.final_comparison import ComparisonRound
from autotune.tuner.run.tuning_job import TuningRequest
from records import Record


@dataclass(frozen=True)
class WorkloadInfo:
    """A workload of a run."""

    workload: Workload
    target: str
    log: str  # Path of its log.
    seed: int
    work: Work  # The operations and bytes of one run of its kernel.
    label: str = ""  # Its name in events; "" if it is the only workload.
    seed_chosen: bool = False  # Whether this run chose the seed.
    space: tuple[str, ...] = ()  # Lines that describe its search space.
    default_index: int | None = None  # Index of the space's default configuration.
    structures: int = 0  # Ways through the template that were traced.

    @property
    def heading(self) -> list[str]:
        """The first lines of a run: workload, log and seed, search space."""
        chosen = " (chosen now)" if self.seed_chosen else ""
        title = f"{self.workload} on {self.target}"
        more = [f"log {self.log}, seed {self.seed}{chosen}", *self.space]
        if not self.label:
            return [title, *more]
        name = "" if self.label == self.workload.template else f"{self.label}: "
        return [f"{name}{title}", *(f"  {line}" for line in more)]


def workload_info(request: TuningRequest, seed: int, seed_chosen: bool = False) -> WorkloadInfo:
    """Return what a run says of a workload.

    UsageError if the template's count of operations fails.
    """
    task = request.task
    return WorkloadInfo(
        task.workload,
        str(task.target),
        str(request.store.path),
        seed,
        Work.of(task),
        request.label,
        seed_chosen,
        tuple(legal_lines(task.space, bool(task.untraceable))),
        task.default_index,
        len(task.structures),
    )


RECENT = 64  # Outcomes of the latest trials that are kept.


@dataclass(frozen=True)
class WorkloadStatus:
    """One workload at one moment."""

    job: WorkloadInfo
    trial: int = 0  # Records of the workload so far, earlier runs included.
    # Records wanted in all, or more if there are; None for as many as there is time for.
    trials: int | None = None
    best: Record | None = None  # The fastest.
    best_trial: int = 0  # Trial at which this run found it; 0 if an earlier one did.
    # Times of the default configuration, in seconds, once known.
    default_s: tuple[float, ...] | None = None
    ceiling_s: float | None = None  # The least time possible, in seconds, once known.
    # Seconds that the vendor's library takes for the same work; None if not measured.
    library_s: float | None = None
    # What the ceiling comes from: "peak" for operations, "copy" for moving the arrays; "ceiling"
    # where that is not known.
    roof: str = "ceiling"
    failures: Mapping[str, int] = field(default_factory=dict)  # This run's failures by error code.
    # Seconds of the latest trials of this run, the oldest first; None for a failure.
    recent: tuple[float | None, ...] = ()
    # The share by which further measurements are expected to reduce the best time.
    gain: float | None = None
    improved: bool = False  # Whether the last measurement was the fastest so far.
    round: ComparisonRound | None = None  # The latest of the final comparison.
    summary: events.TuneSummary | None = None  # The result, once its tuning has ended.

    @property
    def best_s(self) -> float | None:
        """Fastest time, in seconds."""
        return None if self.best is None else self.best.cost_s

    @property
    def speed(self) -> str:
        """The fastest time as a speed with its unit; empty if there is none."""
        return "" if self.best_s is None else self.job.work.speed_text(self.best_s)

    @property
    def best_is_default(self) -> bool:
        """Whether the best configuration is the default one."""
        return self.best is not None and self.best.index == self.job.default_index

    @property
    def share(self) -> float | None:
        """Speed of the best as a share of the ceiling's."""
        if self.best_s is None or not self.ceiling_s:
            return None
        return self.ceiling_s / self.best_s

    @property
    def share_text(self) -> str:
        """The share in words: "59 % of peak"; empty if it is not known."""
        return "" if self.share is None else f"{percent_text(self.share)} of {self.roof}"

    @property
    def count(self) -> str:
        """Trials so far and in all: "12/64"; "12" if nobody said how many."""
        return str(self.trial) if self.trials is None else f"{self.trial}/{self.trials}"

    @property
    def over(self) -> bool:
        """Whether nothing is left to measure."""
        return self.summary is not None or (self.trials is not None and self.trial >= self.trials)

    def parts(self) -> list[str]:
        """Return the parts of a status line, most important first."""
        said = []
        if self.best_s is not None:
            shown = [f"best {time_text(self.best_s)}", self.speed, self.share_text]
            said.append(", ".join(filter(None, shown)))
        if self.gain is not None and not self.over:
            said.append(f"{percent_text(self.gain)} to gain")
        if self.failures:
            said.append(failures_text(self.failures))
        return said


class RunProgress:
    """Follows a run by its events.

    clock: returns monotonic seconds.
    begin: when the run began, by that clock; by default now.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, begin: float | None = None
    ) -> None:
        self._clock = clock
        self._begin = clock() if begin is None else begin
        # Every workload's, by label, in the order they were opened in.
        self.standings: dict[str, WorkloadStatus] = {}
        self.latest = ""  # label of the workload that the last event was about
        # Seconds until the whole run ends; None if that is not known.
        self.left_s: float | None = None
        # By what share a reference kernel is slower at times, if the machine is noisy at present.
        self.noise: float | None = None
        self.worst_noise: float | None = None  # the largest share that was seen

    @property
    def elapsed_s(self) -> float:
        """Seconds since the run began."""
        return self._clock() - self._begin

    @property
    def done_share(self) -> float:
        """How much of the run is done, from 0 to 1: by trials, else by time."""
        statuses = self.standings.values()
        wanted = [status.trials for status in statuses]
        if all(trials is not None for trials in wanted):
            trials = sum(filter(None, wanted))
            return min(1.0, sum(status.trial for status in statuses) / trials) if trials else 0
        if self.left_s is None:
            return 0.0
        elapsed_s = self.elapsed_s
        return elapsed_s / max(elapsed_s + self.left_s, 1e-9)

    @property
    def failures(self) -> dict[str, int]:
        """Failures of this run by error code, over all workloads."""
        return all_failures(status.failures for status in self.standings.values())

    def open(self, job: WorkloadInfo) -> None:
        """Take in that a workload belongs to the run."""
        self.standings[job.label] = WorkloadStatus(job)
        self.latest = job.label

    def take(self, event: events.Event) -> WorkloadStatus:
        """Take in an event and return where its workload stands now."""
        self.latest = event.job
        old = self.standings[event.job]
        self.standings[event.job] = new = self._after(event, old)
        return new

    def _after(self, event: events.Event, old: WorkloadStatus) -> WorkloadStatus:
        match event:
            case events.Started():
                more = event.trials is not None and event.recorded > event.trials
                return replace(
                    old,
                    trial=event.recorded,
                    trials=event.recorded if more else event.trials,  # done, and more than that
                    best=event.best,
                    default_s=None if event.default_cost_s is None else (event.default_cost_s,),
                )
            case events.MachineKnown():
                return replace(
                    old,
                    ceiling_s=event.ceiling_s,
                    library_s=event.machine.library_s,
                    roof=_roof(event, old.job),
                )
            case events.Measured():
                return self._after_trial(event, old)
            case events.Noisy():
                self._hear(event.noise)
                return old
            case events.Compared():
                return replace(old, round=event.round, gain=None)
            case events.Finished():
                ceiling_s = event.summary.ceiling_s or old.ceiling_s
                best = event.summary.best
                return replace(
                    old, summary=event.summary, best=best, ceiling_s=ceiling_s, gain=None
                )

    def _after_trial(self, event: events.Measured, old: WorkloadStatus) -> WorkloadStatus:
        self.left_s = event.left_s
        if event.record.noise is not None:
            self._hear(event.record.noise)
        failures = dict(old.failures)
        if event.record.error is not None:
            code = event.record.error["code"]
            failures[code] = failures.get(code, 0) + 1
        cost_s = event.record.cost_s if event.record.ok else None
        improved = event.best is event.record
        is_default = event.record.index == old.job.default_index
        return replace(
            old,
            default_s=event.record.costs_s or old.default_s if is_default else old.default_s,
            trial=event.trial,
            trials=event.trials,
            best=event.best,
            best_trial=event.trial if improved else old.best_trial,
            failures=failures,
            recent=(*old.recent, cost_s)[-RECENT:],
            gain=event.expected_gain,
            improved=improved,
        )

    def _hear(self, noise: float) -> None:
        self.noise = noise if noise > NOISY else None
        if noise > max(NOISY, self.worst_noise or 0.0):
            self.worst_noise = noise

    def noise_texts(self) -> list[str]:
        """Return how noisy the machine is in words; nothing if it is quiet."""
        if self.noise is None:
            return []
        return [f"{percent_text(self.noise)} slower at times", "something else runs here"]

    def left_text(self) -> str:
        """Return the time left: "9 s left"; empty if it is not known or none is."""
        if self.left_s is None or all(status.over for status in self.standings.values()):
            return ""
        return f"{duration_text(self.left_s)} left"


def _roof(known: events.MachineKnown, job: WorkloadInfo) -> str:
    """Return which of the two a kernel's ceiling comes from."""
    if known.ceiling_s is None:
        return "ceiling"
    copying_s = job.work.bytes / known.machine.copy_bytes_s
    return "copy" if math.isclose(copying_s, known.ceiling_s, rel_tol=1e-6) else "peak"


def all_failures(failures: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return how many failures several workloads have together, by error code."""
    return dict(sum(map(Counter, failures), Counter[str]()))


def failures_text(failures: Mapping[str, int]) -> str:
    """Return failures by kind, the commonest first: "3 failed (2 run timeout, 1 wrong answer)"."""
    return f"{sum(failures.values())} failed ({kinds_text(failures)})"


def kinds_text(failures: Mapping[str, int]) -> str:
    """Return the kinds of failures, the commonest first: "2 run timeout, 1 wrong answer"."""
    kinds = sorted(failures.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{count} {code.lower().replace('_', ' ')}" for code, count in kinds)
