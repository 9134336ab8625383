"""Measures candidates of one workload on all devices of a fleet, and compares finalists there."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from autotune.errors import AutotuneError
from autotune.fleet.builds.builds import Build
from autotune.fleet.fleet import Fleet
from autotune.fleet.fleet_device import FleetDevice
from autotune.fleet.fleet_runner import FAILED
from autotune.fleet.fleet_scheduler import FleetScheduler, failure_of
from autotune.fleet.kinds import Wanted
from autotune.fleet.pending_calls import BROKEN
from autotune.measure.comparison_rounds import LONGER
from autotune.measure.local_measurer import CEILING_TIMEOUT_S, STARTING_S
from autotune.measure.result import MeasureResult
from autotune.measure.roofline import Ceiling
from autotune.measure.timing_policy import TimingPolicy
from autotune.task.task import Task
from search_spaces import Config

ONE, ALL = COMPARE_ON = ("one", "all")  # Devices that finalists may be timed on.

TRIES = 3  # Devices on which the peak of a device is tried.


class FleetMeasurer(FleetScheduler):
    """Measures on the devices of a fleet; is a `SupportsParallelRuns` and `SupportsComparison`.

    fleet, task, policy, timeout_s, seed, devices: as `FleetScheduler` has them.
    compares_on: where finalists are timed: on "one" device, or on "all", each with all finalists.

    UsageError if the fleet has no such device, or cannot be used.
    """

    reuses_code = True

    def __init__(
        self,
        fleet: Fleet,
        task: Task,
        policy: TimingPolicy | None = None,
        timeout_s: float = 10.0,
        seed: int = 0,
        devices: Wanted = None,
        compares_on: str = ONE,
    ) -> None:
        super().__init__(fleet, task, policy, timeout_s, seed, devices)
        self._compares_on = compares_on
        self._has: dict[FleetDevice, Collection[int]] = {}  # What each comparing device has built.

    def ceiling(self) -> Ceiling:
        """Measure the peak of one device for work of this kind and size.

        UsageError if the template or its reference cannot be used at all. AutotuneError if no
        device can do so.
        """
        limit_s = CEILING_TIMEOUT_S + self._limit_s
        failed: set[str] = set()
        while True:
            device = self._free_device(failed)
            (ended,) = self._await(
                [self._open.send(device, "ceiling", self._spec, limit_s=limit_s)]
            )
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
        """Configurations that need not be built again."""
        return self._builds.built if self._calls is not None else ()

    def compare(
        self, configs: Sequence[Config], seconds: float, seed: int, fresh: bool, check: bool
    ) -> Sequence[Mapping[int, MeasureResult]]:
        """Time candidates in turns, on one device, or on all at the same time, if that is asked.

        The round of a device that is lost is missing; another one takes the place of a single one.
        """
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
        built = self._built_for(configs, devices)
        failed = [build for build in built.values() if build.error is not None]
        if failed:
            return [{build.config.index: failure_of(build) for build in failed}]
        calls, limit_s = self._open, LONGER * seconds + self._limit_s
        asked = []
        for device in devices:
            own = self._roster.code_for(device).key
            known = self._has.get(device, ())
            wanted = [built[c.index, own] for c in configs if c.index not in known]
            given = [build for build in wanted if build.has_ended]
            answers = {build.config.index: build.answer for build in given}
            how = (list(configs), seconds, seed, fresh, check, answers)
            codes = [build.code for build in given]
            asked.append(calls.send(device, "compare", self._spec, *how, *codes, limit_s=limit_s))
        every = self._await(asked)
        found: list[Mapping[int, MeasureResult]] = []
        self._has = {}
        for ended in every:
            if ended.status in BROKEN:
                continue
            device = ended.call.device
            self._opening_s, self._has[device] = ended.value["opening_s"], ended.value["built"]
            self._opened.add((device, device.generation))
            recorded = self._roster.recorded(device)
            results: dict[int, MeasureResult] = ended.value["results"]
            found.append({i: replace(result, device=recorded) for i, result in results.items()})
        if not found and all(ended.status == FAILED for ended in every):
            raise AutotuneError(str(every[0].value))
        return found

    def close(self) -> None:
        """Let go of the fleet; measuring later enters it again."""
        super().close()
        self._has = {}

    def _built_for(
        self, configs: Sequence[Config], devices: Sequence[FleetDevice]
    ) -> dict[tuple[int, str], Build]:
        """Return the builds of configurations for devices, by index and `DeviceFacts.key`.

        They have ended, or are so slow that a device had better build by itself.
        """
        calls, found = self._open, dict[tuple[int, str], Build]()
        for device in devices:
            facts = self._roster.code_for(device)
            for config in configs:
                found[config.index, facts.key] = self._builds.begin(config, facts)
        while any(not (b.has_ended or self._builds.is_slow(b)) for b in found.values()):
            self._turn(calls)
        return found

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
        known = [device for device in self._has if device in ready]
        opened = [device for device in ready if (device, device.generation) in self._opened]
        return next(iter([*known, *opened]), None) or self._free_device()
