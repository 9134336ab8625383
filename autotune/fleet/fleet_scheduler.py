"""Measures candidates of one workload on all devices of a fleet at the same time.

A candidate whose device is lost is measured on another one, without an error for the caller.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from autotune.errors import AutotuneError, UsageError
from autotune.fleet.builds.builds import Build, Builds
from autotune.fleet.fleet import Fleet
from autotune.fleet.fleet_device import FleetDevice, RunnerCall
from autotune.fleet.fleet_runner import FAILED, REFUSED
from autotune.fleet.kinds import Wanted
from autotune.fleet.peers.default_times import DefaultTimes
from autotune.fleet.pending_calls import BROKEN, LOST, Calls, Ended
from autotune.fleet.roster import POLL_S, Roster
from autotune.fleet.workload_spec import WorkloadSpec
from autotune.measure.measurer import Measurer
from autotune.measure.result import MeasureError, MeasureErrorNo, MeasureInput, MeasureResult
from autotune.measure.scheduler import open_timeout_s
from autotune.measure.timing_policy import TimingPolicy
from autotune.task.task import Task
from search_spaces import SpaceError

_log = logging.getLogger(__name__)

# Candidates that a device has at a time: one that it measures, and one whose code is on its way.
DEPTH = 2

# A candidate that was being measured each time that so many runners were lost has failed.
MAX_LOSSES = 3
MAX_NODES = 6  # The same for nodes that have vanished.

_MEASURES = ("measure", "time_default")  # Calls that have the result of a candidate.


@dataclass(eq=False)
class SubmittedCandidate:
    """A candidate that was submitted."""

    candidate: MeasureInput
    build: Build | None = None  # For which kind of device it is built, once that is chosen.
    losses: list[FleetDevice] = field(default_factory=list)  # That were lost while they ran it.

    @property
    def is_to_blame(self) -> bool:
        """Whether it has ended runners: nodes that vanish do so by themselves, unless too many."""
        own = [device for device in self.losses if not device.is_gone]
        return len(own) >= MAX_LOSSES or len(self.losses) >= MAX_NODES


class FleetScheduler(Measurer):
    """Gives candidates to the devices of a fleet; is a `SupportsParallelRuns`.

    A context manager. It connects when it is made; `close` lets go of the fleet, which disconnects
    if no other workload uses it.

    fleet: shared by the workloads of a run.
    devices: which of them measure, see `wanted` of `kinds.choose`; by default the most frequent
        kind.

    UsageError if the fleet has no such device, or cannot be used.
    """

    def __init__(
        self,
        fleet: Fleet,
        task: Task,
        policy: TimingPolicy | None = None,
        timeout_s: float = 10.0,
        seed: int = 0,
        devices: Wanted = None,
    ) -> None:
        self.policy = policy or TimingPolicy()
        # Others build what any device measures next. But more candidates in flight cost a search
        # more than a processor gains, which measures longer than candidates take to build.
        self.overlap = not task.target.on_cpu
        self._task = task
        self._fleet = fleet
        self._spec = WorkloadSpec.of(task, self.policy, timeout_s, seed)
        self._roster = Roster(fleet, task.target, devices, str(task.workload))
        self._default_times = DefaultTimes(self._roster, fleet.clock)
        self._to_time: list[tuple[FleetDevice, int]] = []  # The default, once it is built there.
        self._calls: Calls | None = None
        self._queue: deque[SubmittedCandidate] = deque()
        self._done: deque[tuple[MeasureInput, MeasureResult]] = deque()
        self._known: list[MeasureResult] = []
        self._told: dict[FleetDevice, tuple[int, int]] = {}  # runner, and how many it knows
        self._failed_on: dict[str, str] = {}
        self._opening_s: float | None = None
        self._opened: set[tuple[FleetDevice, int]] = set()
        _ = self._open
        self.device, self.versions = self._roster.kind, self._roster.versions

    # -- candidates, as many as there are devices ---------------------------------------------

    @property
    def width(self) -> int:
        """Devices that can measure now; it may change during a run."""
        return len(self._roster.ready)

    @property
    def places(self) -> Collection[str]:
        """Names of the devices that can measure now."""
        return [device.name for device in self._roster.ready]

    def submit(self, candidate: MeasureInput) -> None:
        """Begin to build and run a candidate on any free device; queue it if none is free."""
        self._queue.append(SubmittedCandidate(candidate))
        self._dispatch(self._open)

    def next_result(self) -> tuple[MeasureInput, MeasureResult]:
        """Wait for the next of the submitted candidates to end, in whatever order.

        UsageError if the template or its reference cannot be used at all. AutotuneError if no
        device is left, or none can measure the workload.
        """
        while not self._done:
            calls = self._open
            if not self._queue and not any(call.method in _MEASURES for call in calls.pending):
                raise AutotuneError("there is no result to wait for: nothing was submitted")
            self._turn(calls)
        return self._done.popleft()

    def withdraw(self) -> list[MeasureInput]:
        """Take back the submitted candidates that no device was given."""
        found = [trial.candidate for trial in self._queue]
        self._queue.clear()
        return found

    # -- one candidate at a time --------------------------------------------------------------

    def remember(self, result: MeasureResult) -> None:
        """Reuse this result for candidates with the same code hash, on devices of its kind."""
        if result.code_hash is not None and not result.reused:
            self._known.append(result)

    def run(self, candidate: MeasureInput) -> MeasureResult:
        """Return the result of a candidate, which any of the devices measures.

        UsageError, AutotuneError as in `next_result`.
        """
        others: list[tuple[MeasureInput, MeasureResult]] = []
        self.submit(candidate)
        while True:
            found, result = self.next_result()
            if found is candidate:
                self._done.extendleft(reversed(others))
                return result
            others.append((found, result))

    def close(self) -> None:
        """Let go of the fleet; measuring later enters it again."""
        calls, self._calls = self._calls, None
        if calls is None:
            return
        try:
            calls.forget()
            for device in self._roster.ready:
                calls.tell(device, "close", self._spec.key)
        finally:
            self._queue.clear()
            self._done.clear()
            self._told.clear()
            self._opened.clear()
            self._builds.forget()
            self._to_time.clear()
            self._default_times.forget_pending()
            self._fleet.leave()

    # -- the loop -----------------------------------------------------------------------------

    @property
    def _open(self) -> Calls:
        """The calls, with the fleet entered and its devices found."""
        if self._calls is None:
            self._fleet.enter()
            fleet = self._fleet
            self._calls = Calls(fleet.cluster, fleet.replace, fleet.clock, fleet.wait)
            self._builds = Builds(fleet.cluster, self._spec, fleet.clock)
            try:
                self._roster.open(self._calls)
            except BaseException:
                self.close()
                raise
        return self._calls

    def _turn(self, calls: Calls) -> None:
        """Give out candidates, and handle what has ended meanwhile or soon."""
        self._roster.join(calls)
        self._builds.end_some()
        self._dispatch(calls)
        self._roster.check_left(calls)
        tickets = self._builds.tickets
        if not calls.pending and not tickets:
            self._fleet.sleep(POLL_S)
        for ended in calls.next(POLL_S, tickets):
            self._handle(ended, calls)

    @cached_property
    def _default(self) -> SubmittedCandidate | None:
        """The default configuration, which each device times before anything else, if any."""
        try:
            config = self._task.space.config(self._task.default_index)
        except SpaceError:
            return None
        return SubmittedCandidate(MeasureInput(config))

    def _time_default(self, calls: Calls) -> None:
        """Let devices time the default that have not yet, or not as their peers have."""
        if self._default is None:
            self._default_times.give_up()
            return
        self._to_time += [(each, each.generation) for each in self._default_times.due()]
        waiting, self._to_time = self._to_time, []
        for device, generation in waiting:
            if generation == device.generation and not self._send_default(device, calls):
                self._to_time.append((device, generation))
        found = self._default_times.result()
        if found is not None:
            for trial in [each for each in self._queue if self._is_default(each)]:
                self._queue.remove(trial)
                self._finish(trial, *found)

    def _send_default(self, device: FleetDevice, calls: Calls) -> bool:
        """Let a device time the default; return False if it is not built yet, but soon."""
        assert self._default is not None
        candidate = self._default.candidate
        build = self._builds.begin(candidate.config, self._roster.code_for(device))
        if build.error is not None:
            self._default_times.add(device, device.generation, failure_of(build))
        elif build.has_ended or self._builds.is_slow(build):
            trial = SubmittedCandidate(candidate, build, self._default.losses)
            calls.send(
                device, "time_default", self._spec, candidate, *build.given,
                limit_s=self._limit_s, subject=trial,
            )  # fmt: skip
        else:
            return False
        return True

    def _is_default(self, trial: SubmittedCandidate) -> bool:
        index = trial.candidate.config.index
        return self._default is not None and index == self._default.candidate.config.index

    def _dispatch(self, calls: Calls) -> None:
        """Let queued candidates be built, and give those that are to the least busy devices.

        An idle device builds what is built slowly by itself.
        """
        if not self._queue:
            return
        self._begin_builds()
        self._time_default(calls)
        built = [each for each in self._queue if each.build and each.build.has_ended]
        slow = [each for each in self._queue if each.build and self._builds.is_slow(each.build)]
        for trial in [*built, *slow]:
            assert trial.build is not None
            if trial.build.error is not None:
                self._queue.remove(trial)
                self._fail_unbuilt(trial, trial.build)
                continue
            fitting = [each for each in self._roster.ready if self._runs(each, trial.build)]
            if not fitting:
                trial.build = None  # It is built for others, if there are any.
                continue
            depth = DEPTH if trial.build.has_ended else 1
            may = filter(self._default_times.may_measure, fitting)
            free = [each for each in may if len(each.line) < depth]
            if free:
                # It goes elsewhere than where it was lost, if it can.
                device = min(free, key=lambda each: (each in trial.losses, len(each.line)))
                self._queue.remove(trial)
                self._measure(trial, trial.build, device, calls)

    def _begin_builds(self) -> None:
        """Begin to build queued candidates, each for the kind of device that has the fewest."""
        waiting = [trial for trial in self._queue if trial.build is None]
        if not waiting or not self._roster.ready:
            return
        facts = {own.key: own for own in map(self._roster.code_for, self._roster.ready)}
        devices = Counter(self._roster.code_for(each).key for each in self._roster.ready)
        trials = Counter(trial.build.device.key for trial in self._queue if trial.build)
        for trial in waiting:
            key = min(facts, key=lambda own: trials[own] / devices[own])
            trial.build = self._builds.begin(trial.candidate.config, facts[key])
            trials[key] += 1

    def _runs(self, device: FleetDevice, build: Build) -> bool:
        return self._roster.code_for(device).key == build.device.key

    def _measure(
        self, trial: SubmittedCandidate, build: Build, device: FleetDevice, calls: Calls
    ) -> None:
        """Let a device measure a candidate; the device builds it if no builder has."""
        known = self._unknown_to(device)
        calls.send(
            device, "measure", self._spec, trial.candidate, known, *build.given,
            limit_s=self._limit_s, subject=trial,
        )  # fmt: skip

    def _fail_unbuilt(self, trial: SubmittedCandidate, build: Build) -> None:
        """Take the result of a candidate that has no code; its node is the one that built."""
        kind = self._roster.kind or {}
        node = self._builds.node_of(build)
        device = {**kind, "node": node} if node else kind
        self._builds.measured(build, None)
        self._done.append((trial.candidate, replace(failure_of(build), device=device)))

    def _unknown_to(self, device: FleetDevice) -> list[MeasureResult]:
        """Return the known results that a device's runner was not told yet."""
        generation, count = self._told.get(device, (device.generation, 0))
        if generation != device.generation:
            count = 0
        self._told[device] = device.generation, len(self._known)
        news = self._known[count:]
        return [each for each in news if self._roster.same_kind(device, each.device)]

    def _handle(self, ended: Ended, calls: Calls) -> None:
        """Handle the end of a call that nobody waits for."""
        if self._roster.handle(ended, calls) or ended.call.method not in _MEASURES:
            return
        trial: SubmittedCandidate = ended.call.subject
        _check_not_refused(ended)
        if ended.status in BROKEN:
            self._lose(trial, ended)
            return
        device, generation = ended.call.device, ended.call.generation
        result, opening_s = ended.value
        self._opening_s = opening_s if opening_s is not None else self._opening_s
        self._opened.add((device, generation))
        self._failed_on.clear()
        if ended.call.method == "time_default":
            self._default_times.add(device, generation, result)
        elif self._roster.is_aside(device):
            self._queue.appendleft(trial)
        else:
            self._finish(trial, device, result)

    def _finish(
        self, trial: SubmittedCandidate, device: FleetDevice, result: MeasureResult
    ) -> None:
        """Take the result of a candidate."""
        if result.device is None:
            result = replace(result, device=self._roster.recorded(device))
        self.remember(result)
        if trial.build is not None:
            self._builds.measured(trial.build, result.cost_s)
        self._done.append((trial.candidate, result))

    def _lose(self, trial: SubmittedCandidate, ended: Ended) -> None:
        """Measure a candidate elsewhere; give it up if it was there whenever runners were lost."""
        device = ended.call.device
        if ended.status == FAILED and not self._opened:
            self._failed_on[device.name] = str(ended.value)
            if len(self._failed_on) >= min(2, max(1, self.width)):
                raise AutotuneError(str(ended.value))
        if ended.was_first and ended.status == LOST:
            trial.losses.append(device)
        if ended.status == LOST and trial.build is not None:
            self._builds.again(trial.build)  # its code may have been on a node that is lost
        is_default = ended.call.method == "time_default"  # that is asked for anew by itself
        if not trial.is_to_blame:
            if not is_default:
                self._queue.appendleft(trial)
            return
        words = f"{len(trial.losses)} runners were lost while they ran it; the last: {ended.value}"
        result = MeasureResult(error=MeasureError(MeasureErrorNo.RUNTIME_DEVICE, "run", words))
        if is_default:
            self._default_times.give_up((device, result))
        else:
            self._finish(trial, device, result)

    @property
    def _limit_s(self) -> float:
        """Seconds after which a runner is taken to hang: it has time-outs of its own."""
        timeout_s = self._spec.timeout_s
        return 2 * open_timeout_s(timeout_s, None) + 6 * timeout_s

    def _await(self, asked: Sequence[RunnerCall]) -> list[Ended]:
        """Wait until calls have ended; return how, in their order; UsageError if one is refused."""
        calls = self._open
        found: dict[int, Ended] = {}
        while len(found) < len(asked):
            for ended in calls.next(POLL_S):
                if ended.call in asked:
                    found[asked.index(ended.call)] = ended
                else:
                    self._handle(ended, calls)
        every = [found[number] for number in range(len(asked))]
        for ended in every:
            _check_not_refused(ended)
        return every


def _check_not_refused(ended: Ended) -> None:
    """Raise UsageError if a node cannot use the workload at all: it may lack what others have."""
    if ended.status == REFUSED:
        raise UsageError(f"{ended.value} (on {ended.call.device.name})")


def failure_of(build: Build) -> MeasureResult:
    """Return the result of a candidate that could not be built."""
    response = None if build.answer is None else build.answer.response
    return MeasureResult(error=build.error, build_span=None if response is None else response.span)
