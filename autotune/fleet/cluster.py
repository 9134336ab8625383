"""What a fleet needs of a cluster: its nodes, runners on them, calls, and what is lost.

`ray_cluster.py` implements it by Ray; tests implement it in their own process.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from autotune.errors import AutotuneError

if TYPE_CHECKING:
    from autotune.fleet.builds.builder_task import BuildRequest

Handle = Any  # A runner, as the cluster names it.
Ticket = Any  # A pending call, as the cluster names it; hashable.
Code = Any  # Machine code that lies on some node, as the cluster names it.


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


class Cluster(Protocol):
    """Nodes that run runners."""

    def nodes(self) -> list[ClusterNode]:
        """Return the nodes that are alive now.

        ClusterLostError if it cannot be reached.
        """

    def start_runner(self, node: ClusterNode, cpus: int, gpus: int, claims: int) -> Handle:
        """Start a `FleetRunner` on a node, without waiting; it owns so many CPUs and GPUs there.

        claims: CPUs that it needs for itself while it times, and leaves to builds in between.
        """

    def call(self, runner: Handle, method: str, *args: Any) -> Ticket:
        """Let a runner answer a call, after the earlier ones; see `FleetRunner.answer`.

        args: a `Code` among them goes there from where it is.
        """

    def build(self, request: BuildRequest, avoided: Collection[str]) -> tuple[Ticket, Code]:
        """Build a candidate on any node that has a CPU for it, without waiting.

        A build whose node is lost begins anew on another one. The ticket's result is a
        `BuildAnswer`.

        avoided: ids of nodes that do not build it.
        """

    def wait(self, tickets: Sequence[Ticket], seconds: float) -> Collection[Ticket]:
        """Wait until a call has ended, at most so long; return those that have.

        ClusterLostError if the cluster cannot be reached.
        """

    def result(self, ticket: Ticket) -> Any:
        """Return what a call that has ended returned.

        RunnerLostError if its runner was lost.
        """

    def stop(self, runner: Handle) -> None:
        """End a runner at once, if it is still there."""

    def close(self) -> None:
        """End all runners, and leave the cluster; end it if it was started for this run."""
