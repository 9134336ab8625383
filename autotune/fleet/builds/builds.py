"""The builds of one workload: which are pending, the result of each, and where its code is."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from autotune.errors import AutotuneError, UsageError
from autotune.fleet.builds.builder_task import (
    REFUSED,
    UNFIT,
    BuildAnswer,
    BuildRequest,
    DeviceFacts,
)
from autotune.fleet.cluster import Cluster, Code, RunnerLostError, Ticket
from autotune.fleet.package_digest import package_facts
from autotune.fleet.workload_spec import WorkloadSpec
from autotune.measure.comparison_rounds import KEPT
from autotune.measure.result import MeasureError, MeasureErrorNo
from autotune.system.words import one_line
from search_spaces import Config

# Seconds after which a device that has nothing to do builds by itself: the process that builds may
# still have to start, or all CPUs are in use.
SLOW_S = 2.0

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class Build:
    """A candidate that is built for some kind of device."""

    config: Config
    device: DeviceFacts
    ticket: Ticket
    code: Code
    begun_at: float  # In monotonic seconds.
    answer: BuildAnswer | None = None  # Once it has ended.
    error: MeasureError | None = None  # Why there is no code, once it has ended.

    @property
    def given(self) -> tuple[BuildAnswer | None, Code | None]:
        """What a runner is given: nothing, if nothing is built yet."""
        return (self.answer, self.code) if self.has_ended else (None, None)

    @property
    def has_ended(self) -> bool:
        """Whether there is code, or an error."""
        return self.answer is not None or self.error is not None


class Builds:
    """Builds each configuration once for a kind of device, and keeps the code of the fastest.

    cluster: where it is built.
    spec: the workload.
    clock: returns monotonic seconds.
    """

    def __init__(self, cluster: Cluster, spec: WorkloadSpec, clock: Callable[[], float]) -> None:
        self._cluster = cluster
        self._clock = clock
        self._spec = spec
        self._package = package_facts()
        self._builds: dict[tuple[int, str], Build] = {}
        self._pending: list[Build] = []
        self._costs_s: dict[tuple[int, str], float] = {}  # of those that were measured
        # Nodes that cannot build for a kind of device, and why: by `DeviceFacts.key` and node id.
        self._unfit: dict[str, dict[str, str]] = {}
        self._told: set[tuple[str, str]] = set()

    @property
    def tickets(self) -> list[Ticket]:
        """What is pending."""
        return [build.ticket for build in self._pending]

    @property
    def built(self) -> set[int]:
        """Configurations whose code is kept."""
        built = (build for build in self._builds.values() if build.answer and not build.error)
        return {build.config.index for build in built}

    def begin(self, config: Config, device: DeviceFacts) -> Build:
        """Return the build of a configuration, which begins unless it is known."""
        key = (config.index, device.key)
        found = self._builds.get(key)
        if found is None:
            ticket, code = self._submit(config, device)
            found = self._builds[key] = Build(config, device, ticket, code, self._clock())
            self._pending.append(found)
        return found

    def again(self, build: Build) -> None:
        """Build anew what was lost with its node."""
        if build.has_ended:
            build.answer = build.error = None
            self._begin_anew(build)

    def end_some(self) -> None:
        """Take the builds that have ended meanwhile.

        UsageError if the workload cannot be used. AutotuneError if no node can build it.
        """
        done = set(self._cluster.wait(self.tickets, 0.0)) if self._pending else set()
        for build in [each for each in self._pending if each.ticket in done]:
            self._pending.remove(build)
            self._end(build)

    def is_slow(self, build: Build) -> bool:
        """Whether a build takes so long that an idle device had better build by itself."""
        return not build.has_ended and self._clock() >= build.begun_at + SLOW_S

    def forget(self) -> None:
        """Drop all builds, with their code."""
        self._builds.clear()
        self._pending.clear()
        self._costs_s.clear()

    def measured(self, build: Build, cost_s: float | None) -> None:
        """Keep the code of a candidate only if it is one of the fastest."""
        key = (build.config.index, build.device.key)
        if cost_s is None:
            self._builds.pop(key, None)
            return
        self._costs_s[key] = cost_s
        if len(self._costs_s) > KEPT:
            slowest = max(self._costs_s, key=self._costs_s.__getitem__)
            del self._costs_s[slowest]
            self._builds.pop(slowest, None)

    def node_of(self, build: Build) -> str:
        """Return the name of the node that has built something; "" if that is not known."""
        return "" if build.answer is None else self._name(build.answer.node)

    def _name(self, node_id: str) -> str:
        return next((node.name for node in self._cluster.nodes() if node.id == node_id), "")

    # -- how a build ends ------------------------------------------------------------------

    def _submit(self, config: Config, device: DeviceFacts) -> tuple[Ticket, Code]:
        request = BuildRequest(self._spec, config.to_json(), device, self._package)
        return self._cluster.build(request, [*self._unfit.get(device.key, ())])

    def _begin_anew(self, build: Build) -> None:
        build.ticket, build.code = self._submit(build.config, build.device)
        build.begun_at = self._clock()
        self._pending.append(build)

    def _end(self, build: Build) -> None:
        try:
            answer: BuildAnswer = self._cluster.result(build.ticket)
        except RunnerLostError as error:  # the cluster has tried other nodes before
            words = one_line(f"the process that builds was lost again and again: {error}")
            build.error = MeasureError(MeasureErrorNo.COMPILE_HOST, "build", words)
            return
        if answer.status == REFUSED:
            raise UsageError(f"{answer.why} (on {self._name(answer.node) or 'a node'})")
        if answer.status == UNFIT:
            self._avoid(build, answer)
            return
        assert answer.response is not None
        build.answer = answer
        build.error = answer.response.error(self._spec.timeout_s)

    def _avoid(self, build: Build, answer: BuildAnswer) -> None:
        """Build on other nodes what one cannot build; AutotuneError if there are none."""
        nodes = {node.id: node.name for node in self._cluster.nodes() if node.cpus}
        unfit = self._unfit.setdefault(build.device.key, {})
        unfit.setdefault(answer.node, answer.why)
        told = (answer.node, answer.why)
        if answer.node in nodes and told not in self._told:
            self._told.add(told)
            _log.warning("%s does not build: %s", nodes[answer.node], answer.why)
        if all(node in unfit for node in nodes):
            whys = "; ".join(f"{name}: {unfit[node]}" for node, name in nodes.items())
            raise AutotuneError(f"no node of the fleet can build: {whys}")
        self._begin_anew(build)
