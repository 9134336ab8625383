"""The interface of measurers: `build` candidates, then `run` each of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Protocol, Self, runtime_checkable

from autotune.measure.result import MeasureInput, MeasureResult
from autotune.measure.roofline import Ceiling
from autotune.measure.timing_policy import TimingPolicy
from search_spaces import Config

BATCH = 16  # Candidates that are built before the first of them runs, at most.


class Measurer(ABC):
    """Measures candidates of one workload on one target."""

    policy: TimingPolicy = TimingPolicy()  # How candidates are timed.
    # The device that it measures on, in the form of `Record.device`: "kind", "name" and further
    # facts. None for the device that the target names.
    device: Mapping[str, Any] | None = None
    # Versions where it measures, as `environment.versions` has them; None for those here.
    versions: Mapping[str, str] | None = None
    overlap: bool = False  # Whether candidates are built while others run.
    # Whether a result depends only on the code: equal programs are then measured once.
    reuses_code: bool = False

    @property
    def places(self) -> Collection[str]:
        """Names of the devices that measure now, of several that workloads may share."""
        return ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:  # noqa: B027
        """Start processes, without waiting for them; other methods do so if this was not called."""

    def remember(self, result: MeasureResult) -> None:  # noqa: B027, some know all results
        """Reuse this result for candidates with the same code hash: they are not measured."""

    def build(self, candidates: Iterable[MeasureInput]) -> None:  # noqa: B027
        """Begin to build candidates, without waiting."""

    def await_builds(self) -> None:  # noqa: B027
        """Wait until the first candidate is built; without `overlap`, until all are."""

    @abstractmethod
    def run(self, candidate: MeasureInput) -> MeasureResult:
        """Return the result of a candidate: its answer is checked, and it is timed."""

    def run_ahead(self, candidate: MeasureInput) -> None:  # noqa: B027
        """With `overlap`, begin to run a candidate, if it is built and the device is idle.

        So the device is busy while the caller handles the result of the candidate before.
        """

    def withdraw(self) -> list[MeasureInput]:
        """Take back submitted candidates that no device has begun; of several devices only."""
        return []

    def measure(
        self, candidates: Iterable[MeasureInput]
    ) -> Iterator[tuple[MeasureInput, MeasureResult]]:
        """Yield each candidate with its result, in order; build a batch at a time.

        UsageError if the template or its reference cannot be used at all. AutotuneError if no
        worker can measure the first candidate.
        """
        rest = iter(candidates)
        built: deque[MeasureInput] = deque()
        while True:
            if not built or self.overlap:
                for candidate in islice(rest, BATCH - len(built)):
                    self.build([candidate])
                    built.append(candidate)
            if not built:
                return
            self.await_builds()
            candidate = built.popleft()
            result = self.run(candidate)
            if built:
                self.run_ahead(built[0])
            yield candidate, result

    def ceiling(self) -> Ceiling | None:
        """Measure the machine's peak for this workload; None if that is not known."""
        return None

    def close(self) -> None:  # noqa: B027
        """Let go of processes; measuring later starts new ones."""


@runtime_checkable
class SupportsPrebuild(Protocol):
    """A measurer that can be asked to build candidates before they are measured.

    If it has `overlap` that may be while it measures.
    """

    overlap: bool

    def prebuild(self, candidates: Iterable[MeasureInput]) -> None:
        """Begin to build candidates that are likely to be measured next; wait for nothing."""


@runtime_checkable
class SupportsComparison(Protocol):
    """A measurer that can time several candidates in turns, on one device or several at once."""

    @property
    def opening_s(self) -> float | None:
        """Seconds that a new process takes to compute the right answers; None if unknown."""

    @property
    def starting_s(self) -> float:
        """Seconds that it takes to start processes, where none are left; else 0."""

    @property
    def built(self) -> Collection[int]:
        """Configurations that need not be built again."""

    def compare(
        self, configs: Sequence[Config], seconds: float, seed: int, fresh: bool, check: bool
    ) -> Sequence[Mapping[int, MeasureResult]]:
        """Time candidates in turns, on each device in one process and on one set of arrays.

        Return a round of each device, whose costs compare alone: by index a single cost, or why a
        candidate failed. Costs are missing if the round was lost through no candidate's fault, or
        one has spoilt it for others.

        seconds: how long the timing may take, about; what is needed to build and begin comes on
            top.
        seed: of the order, and of the places of the arrays.
        fresh: whether the round is in a new process; otherwise it is in that of the round before.
        check: whether a new process computes the right answers and checks each candidate once. The
            one process that owns a GPU always does, and is kept.
        """


@runtime_checkable
class SupportsParallelRuns(Protocol):
    """A measurer of several devices: candidates run at the same time, and end in any order.

    With `overlap` a device builds a candidate while it runs another.
    """

    overlap: bool

    @property
    def width(self) -> int:
        """Devices that can measure now, >= 1 while any is left; it may change during a run."""

    def submit(self, candidate: MeasureInput) -> None:
        """Begin to build and run a candidate on any free device, without waiting.

        It is queued if no device is free. What was in flight on a device that is lost is run
        elsewhere by the measurer itself.
        """

    def next_result(self) -> tuple[MeasureInput, MeasureResult]:
        """Wait for the next of the submitted candidates to end, in whatever order.

        AutotuneError if no device is left, or the workload cannot be measured at all.
        """

    def withdraw(self) -> list[MeasureInput]:
        """Take back the submitted candidates that no device has begun; return them.

        A `Measurer` that cannot do that returns none, and all of them have results.
        """
