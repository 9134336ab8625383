"""The pending calls of one workload to runners of a fleet.

In: calls. Out: how each has ended, also if its runner hangs or is lost.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from autotune.fleet.cluster import Cluster, RunnerLostError, Ticket
from autotune.fleet.fleet_device import FleetDevice, RunnerCall
from autotune.fleet.fleet_runner import FAILED, Answer

_log = logging.getLogger(__name__)

LOST = "lost"  # The call has no answer; the other ends are those of `runner`.
BROKEN = (LOST, FAILED)  # Ends for which the runner is replaced.
PROBES = ("describe", "time_reference")  # Calls by which a device joins.
# Calls whose success does not end a row of failures: each new runner begins with them.
_FIRST = (*PROBES, "time_default")

# Told that a device's runner is lost: the device, the generation of the runner, why, and whether
# the node is known to be dead.
OnLost = Callable[[FleetDevice, int, str, bool], object]
Wait = Callable[[Sequence[Ticket], float], Collection[Ticket]]


@dataclass(frozen=True)
class Ended:
    """How a call has ended."""

    call: RunnerCall
    status: str  # DONE, REFUSED, FAILED or LOST.
    value: Any  # The result, or a message.
    was_first: bool = True  # Whether it was running: calls behind it were only waiting.


class Calls:
    """Sends calls to runners, and returns each once, when it has ended.

    cluster: where the runners are.
    on_lost: replaces a runner, or retires its device.
    clock: returns monotonic seconds.
    wait: waits for calls, as `Cluster.wait` does.
    """

    def __init__(
        self,
        cluster: Cluster,
        on_lost: OnLost,
        clock: Callable[[], float],
        wait: Wait,
    ) -> None:
        self._cluster = cluster
        self._on_lost = on_lost
        self._clock = clock
        self._wait = wait
        self._pending: list[RunnerCall] = []
        self._warned: set[str] = set()

    @property
    def pending(self) -> list[RunnerCall]:
        """The calls that have not ended."""
        return [*self._pending]

    def of(self, device: FleetDevice) -> list[RunnerCall]:
        """Return the pending calls of a device."""
        return [call for call in self._pending if call.device is device]

    def send(
        self, device: FleetDevice, method: str, *args: Any, limit_s: float, subject: Any = None
    ) -> RunnerCall:
        """Let a device's runner answer a call, without waiting."""
        ticket = self._cluster.call(device.runner, method, *args)
        call = RunnerCall(device, device.generation, method, subject, limit_s, ticket)
        self._pending.append(call)
        device.line.append(call)
        self._start_clock(device)
        return call

    def tell(self, device: FleetDevice, method: str, *args: Any) -> None:
        """Let a runner do something whose end nobody waits for."""
        self._cluster.call(device.runner, method, *args)

    def forget(self) -> None:
        """Drop all pending calls."""
        for call in self._pending:
            _leave(call)
        self._pending.clear()

    def next(self, seconds: float, others: Sequence[Ticket] = ()) -> list[Ended]:
        """Wait until calls have ended, at most so long; return them, in no order.

        others: what else ends the wait.
        """
        tickets = [*(call.ticket for call in self._pending), *others]
        if not tickets:
            return []
        wait_s = max(0.0, min(seconds, self._next_limit() - self._clock()))
        ready = set(self._wait(tickets, wait_s))
        found = [self._ended(call) for call in [*self._pending] if call.ticket in ready]
        for call in [*self._pending]:
            if call.generation != call.device.generation:
                found.append(self._end(call, LOST, "its runner was lost", was_first=False))
            elif self._is_over(call):
                why = f"the runner did not answer within {call.limit_s:.0f} s"
                found.append(self._lose(call, why, False))
        return found

    def _ended(self, call: RunnerCall) -> Ended:
        was_first = call.device.line[:1] == [call]
        try:
            status, value, warnings = self._answer(call)
        except RunnerLostError as error:
            if call.generation != call.device.generation:
                return self._end(call, LOST, str(error), was_first=False)
            return self._lose(call, str(error), error.node_died)
        for line in warnings:
            if line not in self._warned:
                self._warned.add(line)
                _log.warning("%s: %s", call.device.name, line)
        if status == FAILED:
            return self._lose(call, value, False, FAILED)
        call.device.up = call.generation
        if call.method not in _FIRST:
            call.device.failures = 0
        return self._end(call, status, value, was_first)

    def _answer(self, call: RunnerCall) -> Answer:
        answer: Answer = self._cluster.result(call.ticket)
        return answer

    def _lose(self, call: RunnerCall, why: str, node_died: bool, status: str = LOST) -> Ended:
        """End a call whose device has failed; the calls behind it are lost, too."""
        was_first = call.device.line[:1] == [call]
        ended = self._end(call, status, why, was_first)
        if call.generation == call.device.generation:
            self._on_lost(call.device, call.generation, why, node_died)
        return ended

    def _end(self, call: RunnerCall, status: str, value: Any, was_first: bool = True) -> Ended:
        self._pending.remove(call)
        _leave(call)
        self._start_clock(call.device)
        return Ended(call, status, value, was_first)

    def _start_clock(self, device: FleetDevice) -> None:
        if device.line and device.line[0].since is None:
            device.line[0].since = self._clock()

    def _is_over(self, call: RunnerCall) -> bool:
        return call.since is not None and self._clock() >= call.since + call.limit_s

    def _next_limit(self) -> float:
        ends = (call.since + call.limit_s for call in self._pending if call.since is not None)
        return min(ends, default=float("inf"))


def _leave(call: RunnerCall) -> None:
    if call in call.device.line:
        call.device.line.remove(call)
