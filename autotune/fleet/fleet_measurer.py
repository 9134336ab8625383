"""Measures candidates of one workload on all devices of a fleet, as many at a time.

A candidate whose device is lost is measured on another one; nobody else is told of it.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from autotune.errors import AutotuneError, UsageError
from autotune.fleet.calls import BROKEN, LOST, Calls, Ended
from autotune.fleet.fleet import Fleet
from autotune.fleet.fleet_device import FleetDevice
from autotune.fleet.fleet_runner import FAILED, REFUSED
from autotune.fleet.peers.default_times import DefaultTimes
from autotune.fleet.roster import POLL_S, Roster
from autotune.fleet.workload_spec import WorkloadSpec
from autotune.measure.comparison_rounds import LONGER
from autotune.measure.local_measurer import CEILING_TIMEOUT_S, STARTING_S
from autotune.measure.measurer import Measurer
from autotune.measure.result import MeasureError, MeasureErrorNo, MeasureInput, MeasureResult
from autotune.measure.roofline import Ceiling
from autotune.measure.scheduler import open_timeout_s
from autotune.measure.timing_policy import TimingPolicy
from autotune.task.task import Task
from search_spaces import Config, SpaceError

_log = logging.getLogger(__name__)

# Candidates that a device has at a time. A runner builds those that it knows as it begins with one:
# a GPU measures one while the next is built and the one after that is on its way.
DEPTH, DEPTH_ON_GPU = 2, 3

# A candidate that was being measured each time that so many runners were lost has failed.
MAX_LOSSES = 3
MAX_NODES = 6  # The same for nodes that have vanished.

ONE, ALL = COMPARE_ON = ("one", "all")  # Devices that finalists may be timed on.


_MEASURES = ("measure", "time_default")  # Calls that have the result of a candidate.

TRIES = 3  # Devices on which a comparison or the peak of a device is tried.


@dataclass(eq=False)
class _Trial:
    """A candidate that was submitted."""

    candidate: MeasureInput
    losses: list[FleetDevice] = field(default_factory=list)  # That were lost while they ran it.

    @property
    def is_to_blame(self) -> bool:
        """Whether it has ended runners: nodes that vanish do so by themselves, unless too many."""
        own = [device for device in self.losses if not device.is_gone]
        return len(own) >= MAX_LOSSES or len(self.losses) >= MAX_NODES


class FleetMeasurer(Measurer):
    """Gives candidates to the devices of a fleet; is a `SupportsParallelRuns`.

    A context manager. It connects when it is made; `close` lets go of the fleet, which disconnects
    if no other workload uses it.

    fleet: shared by the workloads of a run.
    devices: "any", or part of the name of the devices that measure; None for the kind of most.
    compares_on: where finalists are timed: "one" device, or "all", each of which times all of them.

    UsageError if the fleet has no such device, or cannot be used.
    """

    def __init__(
        self,
        fleet: Fleet,
        task: Task,
        policy: TimingPolicy | None = None,
        timeout_s: float = 10.0,
        seed: int = 0,
        devices: str | None = None,
        compares_on: str = ONE,
    ) -> None:
        self.policy = policy or TimingPolicy()
        self._task = task
        self._fleet = fleet
        self._spec = WorkloadSpec.of(task, self.policy, timeout_s, seed)
        self._roster = Roster(fleet, str(task.workload), task.target, devices)
        self._default_times = DefaultTimes(self._roster, fleet.clock)
        self.overlap = not task.target.on_cpu
        self._depth = DEPTH_ON_GPU if self.overlap else DEPTH
        self._calls: Calls | None = None
        self._queue: deque[_Trial] = deque()
        self._done: deque[tuple[MeasureInput, MeasureResult]] = deque()
        self._known: list[MeasureResult] = []
        self._told: dict[FleetDevice, tuple[int, int]] = {}  # runner, and how many it knows
        self._failed_on: dict[str, str] = {}
        self._compares_on = compares_on
        self._built: dict[FleetDevice, Collection[int]] = {}  # of each device that compares
        self._opening_s: float | None = None
        self._opened: set[tuple[FleetDevice, int]] = set()
        _ = self._open
        self.device = self._roster.kind

    # -- candidates, as many as there are devices ---------------------------------------------

    @property
    def width(self) -> int:
        """Devices that can measure now; it may change during a run."""
        return len(self._roster.ready)

    def submit(self, candidate: MeasureInput) -> None:
        """Begin to build and run a candidate on any free device; queue it if none is free."""
        self._queue.append(_Trial(candidate))
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

    # -- on one device ------------------------------------------------------------------------

    def ceiling(self) -> Ceiling:
        """Measure the peak of one device for work of this kind and size.

        UsageError if the template or its reference cannot be used at all. AutotuneError if no
        device can do so.
        """
        limit_s = CEILING_TIMEOUT_S + self._limit_s
        failed: set[str] = set()
        while True:
            device = self._free_device(failed)
            (ended,) = self._ask([device], "ceiling", limit_s=limit_s)
            if ended.status not in BROKEN:
                found: Ceiling = ended.value
                return found
            failed.add(device.name)
            if ended.status == FAILED and len(failed) >= TRIES:
                raise AutotuneError(str(ended.value))
            self._turn(self._open)

    @property
    def opening_s(self) -> float | None:
        """Seconds that a runner took to draw inputs and compute the right answers."""
        return self._opening_s

    @property
    def starting_s(self) -> float:
        """Seconds to start processes, if no device has any yet."""
        return 0.0 if self._opened else STARTING_S

    @property
    def built(self) -> Collection[int]:
        """Configurations that no comparing device need build again."""
        return set.intersection(*map(set, self._built.values())) if self._built else ()

    def compare(
        self, configs: Sequence[Config], seconds: float, seed: int, fresh: bool, check: bool
    ) -> Mapping[int, MeasureResult]:
        """Time candidates in turns, all on one device (see `SupportsComparison`).

        The round is lost if that device is; another one takes its place then.
        """
        (found,) = self._compare([self._comparing()], configs, seconds, seed, fresh, check) or [{}]
        return found

    def compare_on_devices(
        self, configs: Sequence[Config], seconds: float, seed: int, fresh: bool, check: bool
    ) -> Sequence[Mapping[int, MeasureResult]]:
        """Time candidates in turns, on one device, or on all at the same time, if that is asked."""
        devices = [self._comparing()]
        if self._compares_on == ALL:
            devices = list(filter(self._default_times.may_measure, self._roster.ready)) or devices
        return self._compare(devices, configs, seconds, seed, fresh, check)

    def _compare(
        self,
        devices: Sequence[FleetDevice],
        configs: Sequence[Config],
        seconds: float,
        seed: int,
        fresh: bool,
        check: bool,
    ) -> list[Mapping[int, MeasureResult]]:
        """Return the round of each device, but of those that are lost.

        UsageError if the workload is refused. AutotuneError if it fails on all.
        """
        arguments = (list(configs), seconds, seed, fresh, check)
        every = self._ask(devices, "compare", *arguments, limit_s=LONGER * seconds + self._limit_s)
        found: list[Mapping[int, MeasureResult]] = []
        self._built = {}
        for ended in every:
            if ended.status in BROKEN:
                continue
            device = ended.call.device
            self._opening_s, self._built[device] = ended.value["opening_s"], ended.value["built"]
            self._opened.add((device, device.generation))
            recorded = self._roster.recorded(device)
            results: dict[int, MeasureResult] = ended.value["results"]
            found.append({i: replace(result, device=recorded) for i, result in results.items()})
        if not found and all(ended.status == FAILED for ended in every):
            raise AutotuneError(str(every[0].value))
        return found

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
            self._default_times = DefaultTimes(self._roster, self._fleet.clock)
            self._built = {}
            self._fleet.leave()

    # -- the loop -----------------------------------------------------------------------------

    @property
    def _open(self) -> Calls:
        """The calls, with the fleet entered and its devices found."""
        if self._calls is None:
            self._fleet.enter()
            fleet = self._fleet
            self._calls = Calls(fleet.cluster, fleet.replace, fleet.clock)
            try:
                self._roster.open(self._calls)
            except BaseException:
                self.close()
                raise
        return self._calls

    def _turn(self, calls: Calls) -> None:
        """Give out candidates, and handle what has ended meanwhile or soon."""
        self._roster.join(calls)
        self._dispatch(calls)
        self._roster.check_left(calls)
        if not calls.pending:
            self._fleet.sleep(POLL_S)
        for ended in calls.next(POLL_S):
            self._handle(ended, calls)

    @cached_property
    def _default(self) -> _Trial | None:
        """The default configuration, which each device times before anything else, if any."""
        try:
            return _Trial(MeasureInput(self._task.space.config(self._task.default_index)))
        except SpaceError:
            return None

    def _time_default(self, calls: Calls) -> None:
        """Let devices time the default that have not yet, or not as their peers have."""
        if self._default is None:
            self._default_times.give_up()
            return
        for device in self._default_times.due():
            calls.send(
                device, "time_default", self._spec, self._default.candidate,
                limit_s=self._limit_s, subject=self._default,
            )  # fmt: skip
        found = self._default_times.result()
        if found is not None:
            index = self._default.candidate.config.index
            for trial in [each for each in self._queue if each.candidate.config.index == index]:
                self._queue.remove(trial)
                self._finish(trial, *found)

    def _dispatch(self, calls: Calls) -> None:
        """Give queued candidates to the devices that have the fewest."""
        if self._queue:
            self._time_default(calls)
        while self._queue:
            trial = self._queue[0]
            ready = filter(self._default_times.may_measure, self._roster.ready)
            free = [each for each in ready if len(each.line) < self._depth]
            if not free:
                return
            # It goes elsewhere than where it was lost, if it can.
            device = min(free, key=lambda each: (each in trial.losses, len(each.line)))
            self._queue.popleft()
            if device.line:
                calls.tell(device, "expect", self._spec, trial.candidate, beside=True)
            known = self._unknown_to(device)
            calls.send(
                device, "measure", self._spec, trial.candidate, known,
                limit_s=self._limit_s, subject=trial,
            )  # fmt: skip

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
        trial: _Trial = ended.call.subject
        if ended.status == REFUSED:
            raise UsageError(str(ended.value))
        if ended.status in BROKEN:
            self._lose(trial, ended)
            return
        device, generation = ended.call.device, ended.call.generation
        result, opening_s = ended.value
        self._opening_s = opening_s if opening_s is not None else self._opening_s
        self._opened.add((device, generation))
        self._failed_on.clear()
        if trial is self._default:
            self._default_times.add(device, generation, result)
        elif self._roster.is_aside(device):
            self._queue.appendleft(trial)
        else:
            self._finish(trial, device, result)

    def _finish(self, trial: _Trial, device: FleetDevice, result: MeasureResult) -> None:
        """Take the result of a candidate."""
        if result.device is None:
            result = replace(result, device=self._roster.recorded(device))
        self.remember(result)
        self._done.append((trial.candidate, result))

    def _lose(self, trial: _Trial, ended: Ended) -> None:
        """Measure a candidate elsewhere; give it up if it was there whenever runners were lost."""
        device = ended.call.device
        if ended.status == FAILED and not self._opened:
            self._failed_on[device.name] = str(ended.value)
            if len(self._failed_on) >= min(2, max(1, self.width)):
                raise AutotuneError(str(ended.value))
        if ended.was_first and ended.status == LOST:
            trial.losses.append(device)
        if not trial.is_to_blame:
            if trial is not self._default:  # that is asked for anew by itself
                self._queue.appendleft(trial)
            return
        words = f"{len(trial.losses)} runners were lost while they ran it; the last: {ended.value}"
        result = MeasureResult(error=MeasureError(MeasureErrorNo.RUNTIME_DEVICE, "run", words))
        if trial is self._default:
            self._default_times.give_up((device, result))
        else:
            self._finish(trial, device, result)

    @property
    def _limit_s(self) -> float:
        """Seconds after which a runner is taken to hang: it has time-outs of its own."""
        timeout_s = self._spec.timeout_s
        return 2 * open_timeout_s(timeout_s, None) + 6 * timeout_s

    def _ask(
        self, devices: Sequence[FleetDevice], method: str, *args: Any, limit_s: float
    ) -> list[Ended]:
        """Let devices do something, and wait until all have; UsageError if it is refused."""
        calls = self._open
        asked = [calls.send(each, method, self._spec, *args, limit_s=limit_s) for each in devices]
        found: dict[int, Ended] = {}
        while len(found) < len(asked):
            for ended in calls.next(POLL_S):
                if ended.call in asked:
                    found[asked.index(ended.call)] = ended
                else:
                    self._handle(ended, calls)
        every = [found[number] for number in range(len(asked))]
        for ended in every:
            if ended.status == REFUSED:
                raise UsageError(str(ended.value))
        return every

    def _free_device(self, avoided: Collection[str] = ()) -> FleetDevice:
        """Return the device with the fewest pending calls; wait for one if there is none.

        avoided: names of devices that are taken only if there are no others.
        """
        calls = self._open
        while not self._roster.ready:
            self._turn(calls)
        return min(self._roster.ready, key=lambda each: (each.name in avoided, len(each.line)))

    def _comparing(self) -> FleetDevice:
        """Return the device that compares finalists, as long as it can."""
        ready = self._roster.ready
        known = [device for device in self._built if device in ready]
        opened = [device for device in ready if (device, device.generation) in self._opened]
        return next(iter([*known, *opened]), None) or self._free_device()
