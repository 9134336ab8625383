"""A device of a fleet: the runner that owns it, its pending calls, and how often it has failed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from autotune.fleet.cluster import ClusterNode, Handle, Ticket
from autotune.fleet.peers.reference_kernel import ReferenceTimes


@dataclass(eq=False)
class RunnerCall:
    """A pending call of a runner."""

    device: FleetDevice
    generation: int  # Of the device's runner, when it was called.
    method: str
    subject: Any  # The object of the call, such as a candidate; only the caller reads it.
    limit_s: float  # Seconds that it may take, once it is the first of the device.
    ticket: Ticket
    since: float | None = None  # When it became the first, in monotonic seconds.


@dataclass(eq=False)
class FleetDevice:
    """A device; a runner owns it, which is replaced if it is lost."""

    node: ClusterNode
    gpu: str | None  # Its number on the node; None for the processor.
    runner: Handle
    generation: int = 0  # Number of runners that were lost.
    up: int = -1  # The generation of the runner that has answered: until then it may never start.
    failures: int = 0  # In a row.
    why_out: str = ""  # Why it measures no more; "" while it does.
    is_gone: bool = False  # Whether its whole node is lost.
    line: list[RunnerCall] = field(default_factory=list)  # Pending calls, in order.
    reference: ReferenceTimes | None = None  # As long as it was not timed.
    # Results of `FleetRunner.describe`, by target.
    facts: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The node, and the number of its GPU."""
        return self.node.name if self.gpu is None else f"{self.node.name}:gpu{self.gpu}"
