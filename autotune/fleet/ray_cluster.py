"""A cluster of Ray: the one module that imports Ray, which schedules, carries and restarts.

Runners are actors: `FleetRunner` objects in processes that Ray starts on the nodes.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import signal
import socket
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import ray
import ray._private.worker
import ray.exceptions
import ray.util.client
from ray.util.scheduling_strategies import (
    NodeAffinitySchedulingStrategy,
    NodeLabelSchedulingStrategy,
    NotIn,
)

from autotune.errors import AutotuneError, UsageError
from autotune.fleet.address import AUTO, Address
from autotune.fleet.builds.builder_task import UNFIT, BuildAnswer, BuildRequest
from autotune.fleet.cluster import ClusterLostError, ClusterNode, RunnerLostError
from autotune.fleet.fleet_runner import FleetRunner
from autotune.fleet.package_digest import package_folders
from autotune.system.words import named, one_line

_log = logging.getLogger(__name__)

T = TypeVar("T")

PACKAGE = "kernel-autotune"
LOOK_TIMEOUT_S = 60.0  # In which the nodes have to say whether they have this package.
HEAD_LOOK_S = 3.0  # Seconds between looks whether the head of the cluster still answers.
HEAD_GONE_S = 20.0  # In which a head may be replaced; after a minute Ray ends this process.
ANSWER_TIMEOUT_S = 10.0  # In which something has to listen at an address.
CLAIM_S = 60.0  # In which the CPUs of a node have to become free for a runner that times there.
BUILD_RETRIES = 3  # Times that Ray begins a build anew whose node or process is lost.

# Ray's own: no statistics of clusters that a run starts, and no warning about GPUs of runners that
# have none.
_ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}

NODE = "ray.io/node-id"  # The label that Ray gives a node.

_QUIET = {"log_to_driver": False, "logging_level": logging.ERROR}

_UNREACHABLE = (ConnectionError, ray.exceptions.RaySystemError)


def connect(address: Address) -> RayCluster:
    """Connect to a cluster of Ray, or start one on this machine.

    UsageError if it cannot be reached, or its versions of Python or Ray are others.
    """
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    _quieten()
    return RayCluster(_keeping_handlers(lambda: _start_with_package(address)))


def _quieten() -> None:
    """Let Ray print nothing on the standard output, where our own lines and events are.

    One of its threads prints whatever the settings are; there is no public switch.
    """
    logging.getLogger("ray").setLevel(logging.ERROR)
    worker = ray._private.worker
    if hasattr(worker, "print_to_stdstream"):
        worker.print_to_stdstream = lambda data, *_, **__: _log.debug("%s", data.get("lines"))


def _start_with_package(address: Address) -> Callable[[], object]:
    """Connect, so that nodes have this package; return what disconnects."""
    if address.is_local:
        path = os.pathsep.join(map(os.path.abspath, sys.path))  # runners import what we do
        return _start(address, {"env_vars": {"PYTHONPATH": path}})
    stop = _start(address, {})
    try:
        is_there = _is_installed()
    except BaseException:
        stop()
        raise
    if is_there:
        return stop
    if stop is _leave_connected:
        raise UsageError(
            f"no node of the cluster has {PACKAGE}: install it there, or connect without ray.init"
        )
    stop()  # local folders are sent as a connection begins
    folders = [str(folder) for folder in package_folders()]
    return _start(address, {"py_modules": folders, "excludes": ["**/__pycache__"]})


def _start(address: Address, runtime_env: dict[str, Any]) -> Callable[[], object]:
    """Connect; return what disconnects."""
    if ray.is_initialized():
        if address.text != AUTO:
            raise UsageError("this process is connected to Ray already: use it as the fleet 'auto'")
        return _leave_connected
    if address.nodes:
        return _start_simulated(address.nodes, runtime_env)
    _check_answers(address)
    more: dict[str, Any] = {"include_dashboard": False} if address.is_local else {}
    try:
        ray.init(address=address.text, runtime_env=runtime_env, **_QUIET, **more)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        why = _told(one_line(_last_line(error)))
        raise UsageError(f"fleet {address}: no cluster of Ray can be used there: {why}") from error
    shutdown: Callable[[], object] = ray.shutdown
    return shutdown


def _check_answers(address: Address) -> None:
    """Raise UsageError if nothing listens at an address: Ray would try that for ten minutes."""
    host, colon, port = address.text.removeprefix("ray://").rpartition(":")
    if not colon:
        return
    try:
        socket.create_connection((host, int(port)), ANSWER_TIMEOUT_S).close()
    except (OSError, OverflowError) as error:
        raise UsageError(f"fleet {address}: no cluster of Ray can be used there: {error}") from None


def _leave_connected() -> None:
    """Do not close a connection that somebody else has opened."""


def _start_simulated(count: int, runtime_env: dict[str, Any]) -> Callable[[], object]:
    """Start a cluster of several nodes on this machine, and a head that does nothing else."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "include_dashboard": False, "node_name": "head"}
    cluster = Cluster(initialize_head=True, head_node_args=head)

    def stop() -> None:
        ray.shutdown()
        cluster.shutdown()

    try:
        for number in range(1, count + 1):
            cluster.add_node(wait=False, num_cpus=1, node_name=f"node{number}")
        cluster.wait_for_nodes()
        ray.init(address=cluster.address, runtime_env=runtime_env, **_QUIET)
    except BaseException:
        stop()
        raise
    return stop


def _keeping_handlers(do: Callable[[], T]) -> T:
    """Call a function, and take signals as before: Ray puts handlers of its own in their place."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    handlers = {number: signal.getsignal(number) for number in numbers}
    try:
        return do()
    finally:
        for number, handler in handlers.items():
            with contextlib.suppress(ValueError):  # only the main thread may
                signal.signal(number, handler)


def _is_installed() -> bool:
    """Whether the nodes have this package; UsageError if only some have."""
    installed = _installed()
    without = [name for name, version in installed.items() if version is None]
    if without and len(without) < len(installed):
        raise UsageError(
            f"{PACKAGE} is not installed on {named(without)}, and on other nodes it is: "
            "install it there"
        )
    return not without


def _installed() -> dict[str, str | None]:
    """Return the version of this package that each node has, by the node's name."""

    # A function inside of another one is sent as it is: the nodes may not have this module.
    def version(package: str) -> str | None:
        import importlib.metadata

        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            return None

    look = ray.remote(version)
    asked = {
        look.options(num_cpus=0, scheduling_strategy=_on(node)).remote(PACKAGE): node.name
        for node in _nodes()
        if node.cpus or node.gpus
    }
    done, _ = ray.wait([*asked], num_returns=len(asked), timeout=LOOK_TIMEOUT_S)
    found = {}
    for ticket in done:
        with contextlib.suppress(ray.exceptions.RayError):  # the node has gone meanwhile
            found[asked[ticket]] = ray.get(ticket)
    return found


def _on(node: ClusterNode) -> NodeAffinitySchedulingStrategy:
    return NodeAffinitySchedulingStrategy(node.id, soft=False)


def _nodes() -> list[ClusterNode]:
    """Return the nodes that are alive; those of one name are told apart by their numbers."""
    alive = [entry for entry in ray.nodes() if entry["Alive"]]
    names = Counter(_name(entry) for entry in alive)
    return [_node(entry, names[_name(entry)] == 1) for entry in alive]


def _name(entry: dict[str, Any]) -> str:
    """Return the name that a node was given, else that of its machine."""
    given = str(entry.get("NodeName") or "")
    is_given = given and given != entry["NodeManagerAddress"]
    return given if is_given else str(entry["NodeManagerHostname"])


def _node(entry: dict[str, Any], is_unique: bool) -> ClusterNode:
    name = _name(entry) if is_unique else f"{_name(entry)}-{entry['NodeID'][:6]}"
    has = entry["Resources"]
    return ClusterNode(entry["NodeID"], name, int(has.get("CPU", 0)), int(has.get("GPU", 0)))


class _Actor(FleetRunner):
    """A runner that claims CPUs of its node while it times, by a task that holds them.

    Ray gives an actor its CPUs for good; nobody could build there. So the actor has none.

    claims: CPUs to claim; 0 for none.
    """

    def __init__(self, claims: int) -> None:
        super().__init__(self._claimed if claims else contextlib.nullcontext)
        self._claims = claims
        self._hold = ray.remote(_hold)

    @contextlib.contextmanager
    def _claimed(self) -> Iterator[None]:
        """Have the node's CPUs for oneself; AutotuneError if others do not let go of them."""
        node = ray.get_runtime_context().get_node_id()
        own = NodeAffinitySchedulingStrategy(node, soft=False)
        # In the abstract namespace: a runner that is killed leaves no file.
        path = f"\0autotune-claim-{uuid.uuid4().hex}"
        with socket.socket(_UNIX) as door:
            door.bind(path)
            door.listen(1)
            door.settimeout(CLAIM_S)
            how = {"num_cpus": self._claims, "max_retries": 0, "scheduling_strategy": own}
            held = self._hold.options(**how).remote(path)
            try:
                inside, _ = door.accept()
            except TimeoutError:
                ray.cancel(held)
                raise AutotuneError(
                    f"the {self._claims} CPUs of its node were not free within {CLAIM_S:.0f} s: "
                    "who else uses them?"
                ) from None
            with inside:
                yield


_UNIX = socket.AF_UNIX


def _hold(path: str) -> None:
    """Hold the resources of this task until the other end of a socket is closed, or has died."""
    with contextlib.suppress(OSError), socket.socket(_UNIX) as inside:
        inside.connect(path)
        inside.recv(1)


def _building() -> Any:
    """Return the Ray task that builds; without a request it only starts a process for later builds.

    Ray sends a nested function by value, so a node that lacks a package which it imports reports
    that error, and other nodes build.
    """

    def build(request: bytes | None) -> tuple[Any, bytes]:
        import pickle

        import ray

        node = ray.get_runtime_context().get_node_id()
        try:
            from autotune.fleet.builds import builder_task

            if request is None:
                return None, b""
            answer, code = builder_task.build(pickle.loads(request))
        except Exception as error:
            return (_UNABLE, node, f"{type(error).__name__}: {error}"), b""
        return (_ABLE, node, answer), code

    return ray.remote(build)


_ABLE, _UNABLE = "able", "unable"  # How a task that builds begins its answer.


class _Head:
    """The head of a cluster, as far as this process reaches it by itself.

    Ray waits for a head that is gone, and after a minute it ends this process.
    """

    def __init__(self) -> None:
        address = (
            "" if ray.util.client.ray.is_connected() else ray.get_runtime_context().gcs_address
        )
        host, _, port = address.rpartition(":")
        self._host: str = host
        self._port: str = port
        self._looked_at = self._answered_at = time.monotonic()

    def look(self, every_s: float = HEAD_LOOK_S) -> bool:
        """Return whether it answers; ClusterLostError if it has not for long.

        every_s: seconds after the last look in which there is none.
        """
        now = time.monotonic()
        if self._port and now >= self._looked_at + every_s:
            self._looked_at = now
            with contextlib.suppress(OSError):
                socket.create_connection((self._host, int(self._port)), HEAD_LOOK_S).close()
                self._answered_at = now
        if self._looked_at - self._answered_at >= HEAD_GONE_S:
            raise ClusterLostError(_gone("its head does not answer"))
        return self._looked_at == self._answered_at


class RayCluster:
    """A cluster of Ray that this process is connected to; see `Cluster`.

    stop: disconnects.
    """

    def __init__(self, stop: Callable[[], object]) -> None:
        self._stop = stop
        self._runners: list[Any] = []
        self._build = _building()  # once: else Ray would take each for another function
        self._head = _Head()
        self._nodes: list[ClusterNode] = []

    def nodes(self) -> list[ClusterNode]:
        """Return the nodes that are alive now."""
        with _reachable():
            if self._head.look(every_s=0.0):  # else it would wait for the head
                self._nodes = _nodes()
            return self._nodes

    def start_runner(self, node: ClusterNode, cpus: int, gpus: int, claims: int) -> Any:
        """Start an actor on a node; Ray lets it wait until its CPUs and GPUs are free."""
        with _reachable():
            made = ray.remote(_Actor).options(
                num_cpus=cpus,
                num_gpus=gpus,
                max_restarts=0,  # a new one is started where the old one is known to be lost
                max_task_retries=0,
                scheduling_strategy=_on(node),
            )
            runner = made.remote(claims)
            if node.cpus:
                task = self._build.options(num_cpus=1, num_returns=2, scheduling_strategy=_on(node))
                task.remote(None)
        self._runners.append(runner)
        return runner

    def call(self, runner: Any, method: str, *args: Any) -> Any:
        """Call `FleetRunner.answer`; Ray replaces code among the arguments by its bytes."""
        with _reachable():
            return runner.answer.remote(method, *args)

    def build(self, request: BuildRequest, avoided: Collection[str]) -> tuple[Any, Any]:
        """Submit a task of one CPU, which Ray begins anew if its node or its process is lost."""
        where = NodeLabelSchedulingStrategy({NODE: NotIn(*avoided)}) if avoided else "DEFAULT"
        how = {"num_cpus": 1, "num_returns": 2, "max_retries": BUILD_RETRIES}
        with _reachable():
            task = self._build.options(**how, scheduling_strategy=where)
            built, code = task.remote(pickle.dumps(request))
        return built, code

    def wait(self, tickets: Sequence[Any], seconds: float) -> Collection[Any]:
        """Wait for the first call that ends; return all that have."""
        with _reachable():
            self._head.look()
            seconds = min(max(seconds, 0.0), HEAD_LOOK_S)
            done, rest = ray.wait([*tickets], num_returns=1, timeout=seconds)
            if done and rest:
                more, _ = ray.wait(rest, num_returns=len(rest), timeout=0)
                done += more
        found: list[Any] = done
        return found

    def result(self, ticket: Any) -> Any:
        """Return an answer."""
        try:
            found = ray.get(ticket)
            if found[0] == _ABLE:
                return replace(found[2], node=found[1])
            if found[0] == _UNABLE:
                return BuildAnswer(UNFIT, why=_told(one_line(found[2])), node=found[1])
            return found
        except ray.exceptions.RayActorError as error:
            raise _why_lost(error) from error
        except _UNREACHABLE as error:
            raise ClusterLostError(_gone(str(error))) from error
        except ray.exceptions.RayError as error:
            raise RunnerLostError(_told(one_line(str(error)))) from error

    def stop(self, runner: Any) -> None:
        """Kill an actor."""
        with contextlib.suppress(Exception):  # it may be gone, and the cluster with it
            ray.kill(runner)
        with contextlib.suppress(ValueError):
            self._runners.remove(runner)

    def close(self) -> None:
        """Kill the actors, and disconnect."""
        for runner in [*self._runners]:
            self.stop(runner)
        with contextlib.suppress(Exception):
            self._stop()


@contextlib.contextmanager
def _reachable() -> Iterator[None]:
    try:
        yield
    except _UNREACHABLE as error:
        raise ClusterLostError(_gone(str(error))) from error


def _why_lost(error: ray.exceptions.RayActorError) -> RunnerLostError:
    """Return in a few words why an actor is lost; Ray says much."""
    words = one_line(str(error))
    _log.debug("%s", words)
    if isinstance(error, ray.exceptions.ActorUnavailableError):
        return RunnerLostError("its runner cannot be reached")
    if "node" in words and "died" in words and "worker process" not in words:
        return RunnerLostError("its node has died", node_died=True)
    if "OOM" in words or "memory pressure" in words:
        return RunnerLostError("its runner was ended because memory ran out")
    if error.actor_init_failed:
        return RunnerLostError(f"its runner does not start: {_told(words)}")
    return RunnerLostError("its runner has died")


def _gone(why: str) -> str:
    return (
        f"the cluster of Ray cannot be reached any more: {_told(one_line(why))}; what was "
        "measured is in the log, and the same run goes on from there"
    )


def _told(words: str) -> str:
    """Return the beginning of a message of Ray, because these are long."""
    return words if len(words) <= 200 else f"{words[:200]}..."


def _last_line(error: BaseException) -> str:
    """Return what an error says; of one with a traceback of a server, its last line."""
    text = str(error).strip()
    return text.splitlines()[-1] if "Traceback" in text else text
