"""The default configuration is timed on each device, before the device measures anything else.

A device that is slower or noisier there than its peers is timed once more, in new processes. If
that is no better, it is set aside for the workload.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from autotune.fleet.fleet_device import FleetDevice
from autotune.fleet.peers import outliers
from autotune.fleet.roster import LATE_S, Roster
from autotune.measure.result import MeasureResult

TIMES = 2  # That the default is timed on a device before the device is set aside.


@dataclass
class _Timing:
    """The default on one runner."""

    generation: int  # Of the device's runner: a new one times the default anew.
    asked: int = 0  # How often the runner was asked to time it.
    results: list[MeasureResult] = field(default_factory=list)


class DefaultTimes:
    """Says which devices have to time the default, and which may measure.

    No device measures before all have timed it, or have had `LATE_S` seconds more than the first.
    One that joins later times it while the others measure.

    roster: the devices of the workload; it is told which of them are set aside.
    clock: returns monotonic seconds.
    """

    def __init__(self, roster: Roster, clock: Callable[[], float]) -> None:
        self._roster = roster
        self._clock = clock
        self._timings: dict[FleetDevice, _Timing] = {}
        self._late_at = math.inf
        self._has_begun = self._is_given_up = False
        self._why_given_up: tuple[FleetDevice, MeasureResult] | None = None

    def due(self) -> list[FleetDevice]:
        """Judge the devices; return those that have to time the default now."""
        if self._is_off:
            return []
        ready = self._roster.ready
        found = [each for each in ready if not self._of(each).asked]
        timed = [each for each in ready if self._of(each).results]
        self._has_begun |= len(timed) == len(ready) > 0 or self._clock() >= self._late_at
        if self._has_begun:
            for device, why in self._unlike(timed).items():
                timing = self._of(device)
                if timing.asked < TIMES:
                    found.append(device)
                elif len(timing.results) == TIMES:
                    self._roster.set_aside(device, why)
        for device in found:
            self._of(device).asked += 1
        return found

    def add(self, device: FleetDevice, generation: int, result: MeasureResult) -> None:
        """Take what the default took on a device; of a runner that was replaced it is dropped."""
        if generation == device.generation:
            self._of(device).results.append(result)
            self._late_at = min(self._late_at, self._clock() + LATE_S)

    def forget_pending(self) -> None:
        """Let devices be asked anew that have not answered: nobody waits for them any more."""
        for timing in self._timings.values():
            timing.asked = len(timing.results)

    def give_up(self, why: tuple[FleetDevice, MeasureResult] | None = None) -> None:
        """Time the default no more.

        why: its result, if runners were lost while they ran it; with the last of these devices.
        """
        self._is_given_up, self._why_given_up = True, why

    def may_measure(self, device: FleetDevice) -> bool:
        """Whether a device has timed the default, and may measure other configurations."""
        if self._is_off:
            return True
        timing = self._of(device)
        return self._has_begun and timing.asked == len(timing.results) > 0

    def result(self) -> tuple[FleetDevice, MeasureResult] | None:
        """Return the default's result on a device that measures, if there is one."""
        if self._is_off:
            return self._why_given_up
        found = [each for each in self._roster.ready if self.may_measure(each)]
        found.sort(key=lambda each: not self._of(each).results[-1].ok)
        return (found[0], self._of(found[0]).results[-1]) if found else None

    @property
    def _is_off(self) -> bool:
        """Whether devices are not compared with each other."""
        return self._is_given_up or self._roster.is_sharing

    def _of(self, device: FleetDevice) -> _Timing:
        known = self._timings.get(device)
        if known is None or known.generation != device.generation:
            known = self._timings[device] = _Timing(device.generation)
        return known

    def _unlike(self, timed: list[FleetDevice]) -> dict[FleetDevice, str]:
        """Return the devices that are slower or noisier than others of their kind, and why."""
        found: dict[FleetDevice, str] = {}
        for group in self._roster.by_kind(timed):
            results = {each.name: self._of(each).results for each in group}
            why = outliers.set_aside_by_default(results)
            found |= {each: why[each.name] for each in group if each.name in why}
        return found
