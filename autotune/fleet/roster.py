"""The devices that measure for one workload.

In: the devices of a fleet. Out: those of one kind that run the same version of this package and
are about as fast as the others of their kind.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autotune.errors import AutotuneError, TargetError, UsageError
from autotune.fleet import kinds
from autotune.fleet.builds.builder_task import DeviceFacts
from autotune.fleet.fleet import Fleet
from autotune.fleet.fleet_device import FleetDevice
from autotune.fleet.fleet_runner import DONE, made_for
from autotune.fleet.kinds import Wanted
from autotune.fleet.package_digest import SAME_VERSIONS, package_digest
from autotune.fleet.peers import outliers
from autotune.fleet.peers.reference_kernel import TIMEOUT_S
from autotune.fleet.pending_calls import BROKEN, PROBES, Calls, Ended
from autotune.runtime import environment
from autotune.target import Target

_log = logging.getLogger(__name__)

START_S = 180.0  # In which a runner has to start: it may wait for the resources of its node.
LATE_S = 20.0  # Seconds that devices are waited for once one has started.
GRACE_S = 30.0  # In which a node may join if no device is left.
POLL_S = 0.5


class Roster:
    """The devices of a workload: those that start, those that measure.

    wanted: as `kinds.choose` has it.
    what: the workload, in words.
    """

    def __init__(self, fleet: Fleet, target: Target, wanted: Wanted, what: str = "") -> None:
        self._fleet = fleet
        self._what = what
        self._target = target
        self._wanted = wanted
        self._on_gpu = not target.on_cpu
        self._asked: dict[FleetDevice, int] = {}  # the generation of the runner that was asked
        self._facts: dict[FleetDevice, Mapping[str, Any]] = {}
        self._codes: dict[FleetDevice, DeviceFacts] = {}  # What code for them depends on.
        #: Whether devices are simulated, so that they disturb each other.
        self.is_sharing = False
        self._is_open = False
        self._refused: dict[FleetDevice, str] = {}
        self._aside: dict[FleetDevice, str] = {}
        self._ready: list[FleetDevice] = []
        self._empty_since: float | None = None
        # The kind of device, in the form of `Record.device`, once chosen.
        self.kind = dict(wanted) if isinstance(wanted, Mapping) else None

    # -- what a measurer asks ----------------------------------------------------------------

    @property
    def ready(self) -> list[FleetDevice]:
        """The devices that can measure now."""
        return [each for each in self._ready if self._is_ready(each)]

    def _is_ready(self, device: FleetDevice) -> bool:
        is_up = device.up == device.generation and not device.why_out
        return is_up and self._is_timed(device) and device not in self._aside

    def _is_timed(self, device: FleetDevice) -> bool:
        """Whether a device has timed the reference kernels, or need not."""
        return self.is_sharing or device.reference is not None

    def recorded(self, device: FleetDevice) -> dict[str, Any]:
        """Return a device in the form of `Record.device`, with its node."""
        own = dict(self._facts[device]["device"])
        assert self.kind is not None
        alike = kinds.same_kind(self.kind, own)
        return {**(self.kind if alike else own), "node": device.name}

    @property
    def versions(self) -> dict[str, str]:
        """Versions on the first node that measures, with its driver and compiler of GPUs."""
        return {**environment.versions(), **self._facts[self.ready[0]]["versions"]}

    def code_for(self, device: FleetDevice) -> DeviceFacts:
        """Return what code depends on that a device is to run."""
        found = self._codes.get(device)
        if found is None:
            found = self._codes[device] = DeviceFacts.of(self._facts[device])
        return found

    @property
    def kinds_found(self) -> list[tuple[dict[str, Any], Target]]:
        """The kinds of the devices that have described themselves, each with its target."""
        found = {each.name: facts for each, facts in self._facts.items() if not each.why_out}
        groups = kinds.by_kind({name: facts["device"] for name, facts in found.items()})
        firsts = [found[group[0]] for group in groups]
        return [(dict(f["device"]), target_for(self._target, f) or self._target) for f in firsts]

    def same_kind(self, device: FleetDevice, recorded: Mapping[str, Any] | None) -> bool:
        """Whether a result from a recorded device may stand for one of this device."""
        own = self._facts[device]["device"]
        return kinds.same_kind(own, self.kind or own if recorded is None else recorded)

    def by_kind(self, devices: Sequence[FleetDevice]) -> list[list[FleetDevice]]:
        """Return devices with the others of their kind."""
        facts = {each.name: self._facts[each]["device"] for each in devices}
        return [[d for d in devices if d.name in names] for names in kinds.by_kind(facts)]

    def set_aside(self, device: FleetDevice, why: str) -> None:
        """Let a device measure no more for this workload, as the default was not like elsewhere."""
        self._aside[device] = f"it is set aside: {why}"
        _log.warning("%s measures no more for %s: %s", device.name, self._what, self._aside[device])

    def is_aside(self, device: FleetDevice) -> bool:
        """Whether what a device still measures for this workload does not count."""
        return device in self._aside

    # -- joining -----------------------------------------------------------------------------

    def open(self, calls: Calls) -> None:
        """Start runners, choose the kind of device, and time the reference kernels.

        UsageError if there is no device to measure on.
        """
        self._asked.clear()
        self._ready.clear()
        self._facts.clear()
        self._codes.clear()
        self._is_open = False
        self._await(calls, "describe", self._is_described)
        if not self._is_described():
            raise UsageError(self._nothing())
        if self.kind is None:
            self._choose()
        self._check_sharing()
        for device in [*self._facts]:
            self._after_facts(device, calls)
        self._await(calls, "time_reference", lambda: bool(self.ready))
        self._is_open = True
        self._compare_references()
        if not self.ready:
            raise UsageError(self._nothing())

    def join(self, calls: Calls) -> None:
        """Ask new devices, and devices with a new runner, to describe themselves.

        A description that another workload of the run has got is reused: the device may be busy.
        """
        target = self._target.recorded
        for device in self._fleet.devices(self._on_gpu):
            is_up = device.up == device.generation
            known = is_up and device in self._facts and self._is_timed(device)
            asked = self._asked.get(device) == device.generation
            if known or asked or self._is_other(device):
                continue
            self._asked[device] = device.generation
            if is_up and target in device.facts:
                self._take_facts(device, device.facts[target], calls)
            else:
                calls.send(device, "describe", target, limit_s=START_S)

    def handle(self, ended: Ended, calls: Calls) -> bool:
        """Handle the end of a call that this object has made; return whether it was one."""
        device, method = ended.call.device, ended.call.method
        if method not in PROBES:
            return False
        if ended.status in BROKEN:
            return True  # its new runner is asked again
        if method == "describe" and ended.status != DONE:
            self._refuse(device, ended.value)
        elif method == "describe":
            device.facts[self._target.recorded] = ended.value
            self._take_facts(device, ended.value, calls)
        else:
            device.reference = ended.value
            self._admit(device)
        return True

    def check_left(self, calls: Calls) -> None:
        """Raise AutotuneError if no device is left, and none has joined for a while."""
        awaited = {call.device for call in calls.pending if not call.device.why_out}
        if self.ready or any(not self._is_other(device) for device in awaited):
            self._empty_since = None
            return
        now = self._fleet.clock()
        self._empty_since = now if self._empty_since is None else self._empty_since
        grace_s = 0.0 if self._fleet.address.is_local else GRACE_S
        if now - self._empty_since >= grace_s:
            raise AutotuneError(f"no device of the fleet is left: {self._reasons()}")

    # -- how a device joins ------------------------------------------------------------------

    def _await(self, calls: Calls, method: str, found: Callable[[], bool]) -> None:
        """Wait until all calls of a method have ended, or for a while once there is a device."""
        fleet = self._fleet
        begin, late_at = fleet.clock(), math.inf
        while True:
            self.join(calls)
            now, is_found = fleet.clock(), found()
            awaited = (method,) if is_found else (method, "describe")
            pending = any(call.method in awaited for call in calls.pending)
            if is_found:
                late_at = min(late_at, now + LATE_S)
            if now >= min(late_at, begin + START_S):
                return
            if not pending and (is_found or not self._may_join(now - begin)):
                return
            if not calls.pending:
                fleet.sleep(POLL_S)
            for ended in calls.next(POLL_S):
                self.handle(ended, calls)

    def _may_join(self, seconds: float) -> bool:
        """Whether a node may take the place of others that were lost so many seconds ago."""
        return not self._fleet.address.is_local and bool(self._fleet.retired) and seconds < GRACE_S

    def _is_described(self) -> bool:
        return any(not (device.why_out or self._is_other(device)) for device in self._facts)

    def _refuse(self, device: FleetDevice, why: str) -> None:
        self._refused[device] = why
        _log.warning("%s is left out: %s", device.name, why)

    def _take_facts(self, device: FleetDevice, facts: Mapping[str, Any], calls: Calls) -> None:
        """Take in what a device is; see `FleetRunner.describe`."""
        if why := self._unlike(facts):
            self._refuse(device, why)
            return
        if device.gpu is not None:
            device.gpu = facts["gpu"] or device.gpu
        self._facts[device] = facts
        self._codes.pop(device, None)
        if self.kind is not None:
            self._check_sharing()
            self._after_facts(device, calls)

    def _after_facts(self, device: FleetDevice, calls: Calls) -> None:
        """Let a device of the right kind time the reference kernels, unless that is done."""
        if self._is_other(device):
            return
        if self._is_timed(device):
            self._admit(device)
        elif not any(call.method == "time_reference" for call in calls.of(device)):
            limit_s = TIMEOUT_S + START_S
            calls.send(device, "time_reference", self._target.recorded, limit_s=limit_s)

    def _admit(self, device: FleetDevice) -> None:
        """Let a device measure, unless its peers are faster or steadier; or set these aside."""
        if device not in self._ready:
            self._ready.append(device)
        if self._is_open:
            self._compare_references()

    def _compare_references(self) -> None:
        """Leave devices out that are slower or noisier than others of their kind."""
        if self.is_sharing:
            return
        for group in self.by_kind(self.ready):
            times = {each.name: each.reference for each in group if each.reference is not None}
            aside = outliers.set_aside(times)
            for device in group:
                if device.name in aside:
                    self._fleet.retire(device, f"it is set aside: {aside[device.name]}")

    def _is_other(self, device: FleetDevice) -> bool:
        """Whether a device is known to be of a kind that does not measure."""
        facts = self._facts.get(device)
        if self.kind is None or facts is None or self._wanted in (kinds.ANY, kinds.EACH):
            return False
        return not kinds.same_kind(self.kind, facts["device"])

    def _choose(self) -> None:
        """Choose the kind of device that measures, and say which do not."""
        found = {device.name: facts["device"] for device, facts in self._facts.items()}
        chosen = kinds.choose(found, self._wanted)
        self.kind = dict(found[chosen[0]])
        text = kinds.kinds_text(found, chosen)
        if text:
            _log.warning("%s", text)

    def _check_sharing(self) -> None:
        """Find out whether devices are simulated: nodes that have the same processors."""
        if self._on_gpu or self.is_sharing:
            return
        every = [(facts["machine"], cpu) for facts in self._facts.values() for cpu in facts["cpus"]]
        self.is_sharing = len(set(every)) < len(every)
        if self.is_sharing:
            _log.warning("nodes of the fleet share processors: they disturb each other's times")

    def _unlike(self, facts: Mapping[str, Any]) -> str:
        """Return in what a node differs from here so that it cannot measure for us; "" if not."""
        here, there = environment.versions(), facts["versions"]
        python = [".".join(each["python"].split(".")[:2]) for each in (here, there)]
        if python[0] != python[1]:
            return f"it has Python {python[1]}, here is {python[0]}"
        for name in SAME_VERSIONS:
            if here.get(name) != there.get(name):
                return f"it has {name} {there.get(name)}, here is {here.get(name)}"
        if facts["digest"] != package_digest():
            return f"its files of autotune {here.get('autotune')} are others than those here"
        if self._wanted == kinds.EACH and target_for(self._target, facts) is not None:
            return ""
        made_here = made_for(self._target)
        for name, value in facts["made_for"].items():
            if value != made_here[name]:
                option = {"threads": f"-threads={value}", "vector_bytes": "-mcpu=NAME"}[name]
                return (
                    f"it has {name} {value}, here are {made_here[name]}, and rules would make "
                    f"other schedules: give the target {option}, or run on a machine like it"
                )
        return ""

    def _nothing(self) -> str:
        """Return why there is no device to measure on."""
        said = self._reasons()
        if not said and self._asked:
            said = "no runner has started: are its CPUs or GPUs in use?"
        what = "GPU" if self._on_gpu else "CPU"
        return f"fleet {self._fleet.address}: {said or f'it has no node with a {what}'}"

    def _reasons(self) -> str:
        retired = {each: each.why_out for each in self._fleet.retired if not self._is_other(each)}
        whys = {**self._refused, **self._aside, **retired}
        return "; ".join(f"{device.name}: {why}" for device, why in whys.items())


def kinds_of(fleet: Fleet, target: Target) -> list[tuple[dict[str, Any], Target]]:
    """Return the kinds of devices that measure for a target, those of most devices first.

    Each is a device in the form of `Record.device`, with the target of candidates for it. The
    reference kernels are timed on all devices at the same time. The fleet is entered at least
    during this call.

    UsageError if there is no device.
    """
    with fleet:
        calls = Calls(fleet.cluster, fleet.replace, fleet.clock, fleet.wait)
        roster = Roster(fleet, target, kinds.EACH)
        try:
            roster.open(calls)
        finally:
            calls.forget()
        return roster.kinds_found


def target_for(target: Target, facts: Mapping[str, Any]) -> Target | None:
    """Return a target with the options by which rules make the schedules of a node here, too.

    None if no options of it do.

    facts: what the runner there says, see `FleetRunner.describe`.
    """
    wanted, here = facts["made_for"], made_for(target)
    options = dict(target.options)
    for fact, option, value in (
        ("threads", "threads", wanted.get("threads")),
        ("vector_bytes", "mcpu", facts.get("mcpu")),
    ):
        if wanted.get(fact) != here.get(fact) and value is not None:
            options.setdefault(option, str(value))
    try:
        found = Target(target.kind, options)
    except TargetError:
        return None
    return found if made_for(found) == wanted else None
