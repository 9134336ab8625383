"""A cluster during a run, with its devices; the measurers of all workloads of the run share it."""

from __future__ import annotations

import importlib.util
import logging
import math
import time
from collections.abc import Callable, Collection, Sequence

from autotune.errors import UsageError
from autotune.fleet.address import Address
from autotune.fleet.cluster import Cluster, ClusterNode, Handle, Ticket
from autotune.fleet.fleet_device import FleetDevice
from autotune.system.cooperative_threads import CooperativeThreads

_log = logging.getLogger(__name__)

# Failures in a row after which a device measures no more: more than one candidate can cause.
RETIRED_AFTER = 4
LOOK_S = 5.0  # Seconds between looks for nodes that have joined.


class Fleet:
    """The devices of a cluster.

    Nothing is connected before the first `enter`, and what was entered is left by `leave`; as a
    context manager it does both.

    address: where the cluster is.
    connect: connects to it.
    clock: returns monotonic seconds.
    sleep: waits for some seconds.
    """

    def __init__(
        self,
        address: Address,
        connect: Callable[[Address], Cluster] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.address = address
        self.clock = clock
        self._sleep = sleep
        self._connect = connect or _connect
        self._cluster: Cluster | None = None
        self._users = 0
        self._devices: dict[tuple[str, str | None], FleetDevice] = {}
        self._looked_at: dict[bool, float] = {}
        self._threads: CooperativeThreads | None = None

    @classmethod
    def parse(cls, text: str) -> Fleet:
        """Return the fleet of an address, without connecting; see `Address.parse`.

        UsageError if it is none, or Ray is not installed.
        """
        address = Address.parse(text)
        check_installed()
        return cls(address)

    def __repr__(self) -> str:
        return f"<fleet {self.address}>"

    @property
    def cluster(self) -> Cluster:
        """The cluster, once it is entered."""
        assert self._cluster is not None
        return self._cluster

    def enter(self) -> None:
        """Connect to the cluster, unless somebody has.

        UsageError if there is no such cluster, or it cannot be used.
        """
        if self._cluster is None:
            self._cluster = self._connect(self.address)
        self._users += 1

    def leave(self) -> None:
        """Let go of the cluster; the last one disconnects."""
        self._users -= 1
        if self._users == 0:
            cluster, self._cluster = self.cluster, None
            self._devices.clear()
            self._looked_at.clear()
            cluster.close()

    def __enter__(self) -> Fleet:
        self.enter()
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def wait(self, tickets: Sequence[Ticket], seconds: float) -> Collection[Ticket]:
        """Wait until a call has ended, at most so long; return those that have.

        ClusterLostError if the cluster cannot be reached.
        """
        wait = self._wait if self._threads is None else self._threads.wait
        return wait(tickets, seconds)

    def sleep(self, seconds: float) -> None:
        """Wait for some seconds."""
        self.wait((), seconds)

    def run_together(self, functions: Sequence[Callable[[], object]]) -> None:
        """Call functions at the same time: while one waits for devices, others go on."""
        self._threads = CooperativeThreads(self._wait, self.clock)
        try:
            self._threads.run(functions)
        finally:
            self._threads = None

    def _wait(self, tickets: Sequence[Ticket], seconds: float) -> Collection[Ticket]:
        if tickets:
            return self.cluster.wait(tickets, seconds)
        self._sleep(seconds)
        return ()

    def devices(self, on_gpu: bool) -> list[FleetDevice]:
        """Return the processors or the GPUs that may measure; starts runners on new nodes.

        Those of nodes that are gone are retired: without a call nobody else would notice.

        ClusterLostError if the cluster cannot be reached.
        """
        now = self.clock()
        if now >= self._looked_at.get(on_gpu, -math.inf) + LOOK_S:
            self._looked_at[on_gpu] = now
            nodes = self.cluster.nodes()
            for device in self._devices.values():
                if not device.why_out and device.node.id not in {node.id for node in nodes}:
                    self.replace(device, device.generation, "", node_died=True)
            for node in nodes:
                for gpu in _numbers(node, on_gpu):
                    if (node.id, gpu) not in self._devices:
                        runner = self._start(node, gpu)
                        self._devices[node.id, gpu] = FleetDevice(node, gpu, runner)
        return [
            device
            for device in self._devices.values()
            if (device.gpu is not None) == on_gpu and not device.why_out
        ]

    def replace(self, device: FleetDevice, generation: int, why: str, node_died: bool) -> None:
        """Replace the runner of a device that has failed; retire the device if it fails often.

        generation: of the runner that is lost; nothing happens if that was replaced already.
        node_died: whether it is known that the whole node is lost.
        """
        if generation != device.generation:
            return
        self._drop_runner(device)
        device.failures += 1
        if node_died or device.node.id not in {node.id for node in self.cluster.nodes()}:
            device.is_gone = True
            self.retire(device, "the node is gone")
        elif device.failures >= RETIRED_AFTER:
            self.retire(device, f"it has failed {device.failures} times in a row: {why}")
        else:
            _log.warning("%s: %s; its runner is started anew", device.name, why)
            device.runner = self._start(device.node, device.gpu)

    def retire(self, device: FleetDevice, why: str) -> None:
        """Let a device measure no more; what it is at is measured elsewhere."""
        _log.warning("%s measures no more: %s", device.name, why)
        device.why_out = why
        self._drop_runner(device)

    @property
    def retired(self) -> list[FleetDevice]:
        """Return the devices that measure no more; each says why."""
        return [device for device in self._devices.values() if device.why_out]

    def _drop_runner(self, device: FleetDevice) -> None:
        """End a device's runner: the next one times the reference kernels again."""
        device.generation += 1
        device.line.clear()
        device.reference = None
        self.cluster.stop(device.runner)

    def _start(self, node: ClusterNode, gpu: str | None) -> Handle:
        """Start a runner: on a processor it claims all of the node's CPUs while it times.

        The runner of a GPU claims one CPU, if another one is left for builds.
        """
        if gpu is None:
            return self.cluster.start_runner(node, 0, 0, node.cpus)
        return self.cluster.start_runner(node, int(node.cpus > node.gpus), 1, 0)


def _numbers(node: ClusterNode, on_gpu: bool) -> list[str | None]:
    """Return the numbers of a node's GPUs, or None for its processor, if the fleet may have it."""
    if on_gpu:
        return [str(number) for number in range(node.gpus)]
    return [None] if node.cpus else []


def check_installed() -> None:
    """Raise UsageError unless Ray is installed."""
    if importlib.util.find_spec("ray") is None:
        raise UsageError(
            "a fleet needs Ray, which is not installed: pip install 'kernel-autotune[ray]'"
        )


def _connect(address: Address) -> Cluster:
    from autotune.fleet.ray_cluster import connect  # the only one that imports Ray

    return connect(address)
