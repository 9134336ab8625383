"""Simulates several devices: each candidate has a given result, after a given time.

The time is real, or that of a virtual clock, on which seconds pass only while somebody waits: for
tests, and for many searches in a short time. `RecordedTask` is a workload for them.
"""

from __future__ import annotations

import heapq
import math
import time
from collections import deque
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, NoReturn

from autotune.errors import AutotuneError, UsageError
from autotune.measure.measurer import Measurer
from autotune.measure.recorded_measurer import Recording, ReplayMeasurer
from autotune.measure.result import MeasureInput, MeasureResult
from autotune.measure.timing_policy import TimingPolicy
from autotune.runtime.signature import ArrayParameter
from autotune.system.cooperative_threads import CooperativeThreads
from autotune.task.task import Task
from autotune.template import Template
from search_spaces.space import Space


class Clock:
    """The clock of the machine: seconds pass by themselves."""

    def __call__(self) -> float:
        """Return monotonic seconds."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


class VirtualClock(Clock):
    """A clock on which seconds pass only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0  # seconds

    def __call__(self) -> float:
        """Return the seconds that have passed."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let seconds pass."""
        self.now += seconds


class CommonClock(Clock):
    """A clock of several searches that go on at the same time: while one sleeps, others go on.

    clock: what the time is by.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._threads: CooperativeThreads | None = None

    def __call__(self) -> float:
        """Return monotonic seconds."""
        return self._clock()

    def sleep(self, seconds: float) -> None:
        """Let others go on until so many seconds have passed."""
        if self._threads is None:
            self._clock.sleep(seconds)
        else:
            self._threads.wait((), seconds)

    def run_together(self, functions: Sequence[Callable[[], object]]) -> None:
        """Call functions at the same time: each goes on until it sleeps."""
        self._threads = CooperativeThreads(self._wait_any, self._clock)
        try:
            self._threads.run(functions)
        finally:
            self._threads = None

    def _wait_any(self, _: Sequence[Hashable], seconds: float) -> Collection[Hashable]:
        self._clock.sleep(seconds)
        return ()


@dataclass(frozen=True)
class SimulatedAnswers:
    """What devices answer, and when."""

    result: Callable[[MeasureInput], MeasureResult]
    seconds: Callable[[MeasureInput], float]  # That a candidate takes on a device, >= 0.
    policy: TimingPolicy = ReplayMeasurer.policy  # How it was timed.

    @classmethod
    def of(cls, recording: Recording, mean_s: float = 0.3) -> SimulatedAnswers:
        """Answer as recorded, after the recorded time, scaled to this mean over the recording."""
        recorded_s = {
            i: (r.build_s or 0.0) + (r.run_s or 0.0) for i, r in recording.results.items()
        }
        whole_s = sum(recorded_s.values())

        def seconds(candidate: MeasureInput) -> float:
            own_s = recorded_s[candidate.config.index] / whole_s if whole_s else 1 / len(recorded_s)
            return mean_s * len(recorded_s) * own_s

        return cls(ReplayMeasurer(recording).run, seconds, ReplayMeasurer.policy)


class _Run(NamedTuple):
    """What a device does: until `end_s`, when it has a result or is lost."""

    end_s: float
    number: int  # In which order they began.
    begin_s: float
    device: int
    candidate: MeasureInput
    is_lost: bool


class SimulatedFleet(Measurer):
    """Devices that are simulated; they go on by the clock whatever the caller does.

    width: number of devices.
    answers: what they answer, and when.
    clock: what the time is by.
    lost_s: when devices are lost, in seconds from now, by number of the device. What one was at
        begins anew on another.
    name: of the kind of devices.
    """

    def __init__(
        self,
        width: int,
        answers: SimulatedAnswers,
        clock: Clock | None = None,
        lost_s: Mapping[int, float] | None = None,
        name: str = "simulated device",
    ) -> None:
        self.policy = answers.policy
        self.device = self._kind = {"kind": "simulated", "name": name}
        self.busy_s = 0.0  # seconds that all devices together have worked for results
        self._answers = answers
        self._clock = clock or Clock()
        now = self._clock()
        self._lost_at = dict.fromkeys(range(width), math.inf)  # also: the devices that are left
        self._lost_at |= {device: now + after_s for device, after_s in (lost_s or {}).items()}
        self._idle = [(now, device) for device in range(width)]  # since when
        self._running: list[_Run] = []  # the first to end comes first
        self._queue: deque[tuple[float, MeasureInput]] = deque()  # since when
        self._ended: deque[tuple[MeasureInput, int]] = deque()  # with the device
        self._begun = 0

    @property
    def width(self) -> int:
        """Devices that are not lost."""
        self._pass_time()
        return len(self._lost_at)

    @property
    def places(self) -> Collection[str]:
        """The name of the kind of these devices; no other devices are of that kind."""
        return [str(self._kind["name"])]

    def submit(self, candidate: MeasureInput) -> None:
        """Let the first free device run a candidate."""
        self._pass_time()
        self._queue.append((self._clock(), candidate))
        self._begin_queued()

    def next_result(self) -> tuple[MeasureInput, MeasureResult]:
        """Wait for the next candidate to end; AutotuneError if no device is left."""
        self._pass_time()
        while not self._ended:
            if not self._running:
                raise AutotuneError("no device is left to measure on")
            self._clock.sleep(max(0.0, self._running[0].end_s - self._clock()))
            self._pass_time()
        candidate, device = self._ended.popleft()
        own = {**self._kind, "node": f"node {device}"}
        return candidate, replace(self._answers.result(candidate), device=own)

    def run(self, candidate: MeasureInput) -> MeasureResult:
        """Return the result of a candidate, where none other is in flight."""
        self.submit(candidate)
        return self.next_result()[1]

    def withdraw(self) -> list[MeasureInput]:
        """Take back what is queued."""
        self._pass_time()
        found = [candidate for _, candidate in self._queue]
        self._queue.clear()
        return found

    def _pass_time(self) -> None:
        """Let everything happen that happens until now, in order."""
        now = self._clock()
        while self._running and self._running[0].end_s <= now:
            run = heapq.heappop(self._running)
            if run.is_lost:
                del self._lost_at[run.device]
                self._queue.appendleft((run.end_s, run.candidate))
            else:
                self.busy_s += run.end_s - run.begin_s
                self._ended.append((run.candidate, run.device))
                heapq.heappush(self._idle, (run.end_s, run.device))
            self._begin_queued()
        for since_s, device in [*self._idle]:
            if self._lost_at[device] <= now:
                self._idle.remove((since_s, device))
                del self._lost_at[device]
        heapq.heapify(self._idle)

    def _begin_queued(self) -> None:
        """Let idle devices begin with what is queued, those first that have waited longest."""
        while self._queue and self._idle:
            idle_s, device = heapq.heappop(self._idle)
            queued_s, candidate = self._queue[0]
            begin_s, lost_s = max(idle_s, queued_s), self._lost_at[device]
            if lost_s <= begin_s:
                del self._lost_at[device]
                continue
            self._queue.popleft()
            end_s = begin_s + self._answers.seconds(candidate)
            run = _Run(min(end_s, lost_s), self._begun, begin_s, device, candidate, lost_s < end_s)
            self._begun += 1
            heapq.heappush(self._running, run)


class RecordedTask(Task):
    """A workload whose configurations are those of a recording, which must be measured by it.

    recording: its space, and its name, which becomes that of the template.
    """

    flops: float | None = None
    bytes = 0.0

    def __init__(self, recording: Recording) -> None:
        super().__init__(Template(recording.name, None, _not_here), {})
        self._recorded_space = recording.space
        self._fingerprint = recording.space.fingerprint()

    @property
    def space(self) -> Space:
        """The configurations that were recorded."""
        return self._recorded_space

    @property
    def arguments(self) -> list[ArrayParameter]:
        """A number, since the arrays are not known."""
        return [ArrayParameter("out", "float32", (1,), is_output=True)]

    @property
    def default_index(self) -> int:
        """The default configuration of the space; SpaceError if there is none."""
        return self.space.default_index

    def refusal(self, index: int) -> str:
        """Return the rule of the space that rejects a configuration; empty if it is recorded."""
        broken = self.space.broken(index)
        return "" if broken is None else broken.name

    def fingerprints_of(self, index: int) -> dict[str, str]:
        """Return the digest of the space in place of digests of a template."""
        return {"space": self._fingerprint, "template": self._fingerprint}

    def steps_of(self, index: int) -> list[Any] | None:
        """Return None: the schedule is not known."""
        return None


def _not_here() -> NoReturn:
    raise UsageError("a recorded space has no template")
