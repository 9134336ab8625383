"""What a fleet needs of a cluster: its nodes, runners on them, calls, and what is lost.

`ray_cluster.py` implements it by Ray; tests implement it in their own process.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from autotune.errors import AutotuneError

Handle = Any  # A runner, as the cluster names it.
Ticket = Any  # A pending call, as the cluster names it; hashable.


class RunnerLostError(AutotuneError):
    """A runner has ended, or can no longer be reached, or did not start; the message says why."""

    def __init__(self, message: str, node_died: bool = False) -> None:
        super().__init__(message)
        self.node_died = node_died  # whether it is known that the whole node is lost


class ClusterLostError(AutotuneError):
    """The cluster cannot be reached any more."""


@dataclass(frozen=True)
class ClusterNode:
    """A machine of a cluster, or a simulated one."""

    id: str
    name: str  # Unique within the cluster.
    cpus: int  # That the cluster gives out.
    gpus: int = 0
    accelerator: str = ""  # Ray's name of the type of its GPUs, if it has any.


class Cluster(Protocol):
    """Nodes that run runners."""

    def nodes(self) -> list[ClusterNode]:
        """Return the nodes that are alive now.

        ClusterLostError if it cannot be reached.
        """
        ...

    def start_runner(self, node: ClusterNode, cpus: int, gpus: int, builders: int | None) -> Handle:
        """Start a `FleetRunner` on a node, without waiting; it owns so many CPUs and GPUs there."""
        ...

    def call(self, runner: Handle, method: str, *args: Any, beside: bool = False) -> Ticket:
        """Let a runner answer a call, after the earlier ones; see `FleetRunner.answer`.

        beside: answer it at once, beside the call that is running.
        """
        ...

    def wait(self, tickets: Sequence[Ticket], seconds: float) -> Collection[Ticket]:
        """Wait until a call has ended, at most so long; return those that have.

        ClusterLostError if the cluster cannot be reached.
        """
        ...

    def result(self, ticket: Ticket) -> Any:
        """Return what a call that has ended returned.

        RunnerLostError if its runner was lost.
        """
        ...

    def stop(self, runner: Handle) -> None:
        """End a runner at once, if it is still there."""
        ...

    def close(self) -> None:
        """End all runners, and leave the cluster; end it if it was started for this run."""
        ...
