"""A cluster in the process of the test, with a clock of its own: nodes vanish, runners hang."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace

from autotune.fleet.address import Address
from autotune.fleet.builds.builder_task import BUILT, BuildAnswer
from autotune.fleet.cluster import ClusterNode, RunnerLostError
from autotune.fleet.fleet import Fleet
from autotune.fleet.fleet_measurer import FleetMeasurer
from autotune.fleet.fleet_runner import DONE, FAILED, made_for
from autotune.fleet.package_digest import package_digest
from autotune.fleet.peers.reference_kernel import ReferenceTimes
from autotune.measure.pool.messages import Message
from autotune.measure.pool.worker_slot import Response
from autotune.measure.result import MeasureInput, MeasureResult
from autotune.measure.roofline import Ceiling
from autotune.runtime import environment
from autotune.target import Target
from autotune.task.task import Task
from search_spaces import Config

ZEN = {"kind": "cpu", "name": "Zen 4", "threads": 8, "vector_bytes": 64}
XEON = {"kind": "cpu", "name": "Xeon", "threads": 8, "vector_bytes": 64}
STEADY = ReferenceTimes(multiply_s=1e-3, copy_s=1e-3, spread=0.01)


def candidate(index):
    return MeasureInput(Config(index, {"x": index}))


class FakeRunner:
    """What a test lets a device do; `measured` has the candidates, in order."""

    def __init__(self, node, cpus=1, gpus=0, claims=0):
        self.node, self.cpus, self.gpus, self.claims = node, cpus, gpus, claims
        self.device, self.reference = ZEN, STEADY
        self.takes = 1.0  # Seconds of a measurement.
        self.takes_default = 0.0  # The same of the default, before all others.
        self.unlike = {}  # Facts that differ from those here.
        self.ends = {}  # By method: how a call ends in place of what it should do.
        self.measured, self.known, self.closed = [], [], []
        self.built = []  # What it has built by itself.
        self.given = []  # What it was given for each round: configurations.
        self.compared = 0
        self.default_s = [1.0, 1.01, 1.02]  # Costs of the default.
        self.defaults = 0  # How often it was timed.

    def answer(self, method, *args):
        if method in self.ends:
            status, value = self.ends[method]
            return status, value, []
        return DONE, getattr(self, method)(*args), []

    def describe(self, target):
        return {
            "device": dict(self.device),
            "versions": environment.versions(),
            "digest": package_digest(),
            "made_for": made_for(Target(target)),
            "gpu": None,
            "architecture": "x86_64",
            "arch": None,
            "code": {"threads": self.device["threads"], "llvm": [self.device["name"], "+avx2"]},
            "machine": self.node.id,
            "cpus": [0],
        } | self.unlike

    def time_reference(self, target):
        return self.reference

    def measure(self, spec, candidate, known, built, code):
        index = candidate.config.index
        if built is None:
            self.built.append(index)
        else:
            assert built.with_code(code).outcome.payload == f"code {index}".encode()
        self.measured.append(index)
        self.known += [result.code_hash for result in known]
        return MeasureResult(costs_s=(1.0 + index,), code_hash=f"{index:x}"), 0.5

    def time_default(self, spec, candidate, built, code):
        self.defaults += 1
        return MeasureResult(costs_s=tuple(self.default_s), code_hash="default"), 0.5

    def compare(self, spec, configs, seconds, seed, fresh, check, given, *codes):
        self.compared += 1
        self.given.append([*given])
        assert [*codes] == [f"code {index}".encode() for index in given]
        results = {c.index: MeasureResult(costs_s=(1.0 + c.index,)) for c in configs}
        return {"results": results, "opening_s": 0.5, "built": [*results]}

    def ceiling(self, spec):
        return Ceiling({"float32": 1e9}, 1e9)

    def close(self, key):
        self.closed.append(key)


class FakeCluster:
    """Runs each call when its time has come; `runners` has all that were started, in order."""

    def __init__(self, *names, prepare=lambda runner: None, gpus=0):
        self.now = 0.0
        self.prepare = prepare
        self.alive = [ClusterNode(f"id-{name}", name, cpus=2, gpus=gpus) for name in names]
        self.runners = []
        self.lost = {}  # Runners that have ended, and why.
        self.poison = set()  # Candidates that end the runner that measures them.
        self.ended = False
        self._numbers = itertools.count()
        self._calls = {}  # By ticket: runner, method, arguments.
        self._began = {}  # When the first call of a runner began, by ticket.
        self._answers = {}
        self.built = []  # Configurations whose builds were begun by the tuner, in order.
        self.build_s = 0.0
        self.ends_of_builds = lambda node, index: None  # An answer, or the words of a loss.
        self._building = {}  # By ticket: the request, nodes to avoid, when it ends, the node.

    def clock(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds

    def of(self, name):
        """Return the latest runner of a node."""
        return next(r for r in reversed(self.runners) if r.node.name == name)

    def kill(self, name, node=True):
        """End the runners of a node; the node itself, too, unless told otherwise."""
        for runner in self.runners:
            if runner.node.name == name:
                self.lost.setdefault(runner, "its process died")
        if node:
            self.alive = [each for each in self.alive if each.name != name]

    def join(self, name):
        self.alive.append(ClusterNode(f"id-{name}-{len(self.runners)}", name, cpus=2))

    # -- what `Cluster` has ------------------------------------------------------------------

    def nodes(self):
        return list(self.alive)

    def start_runner(self, node, cpus, gpus, claims):
        runner = FakeRunner(node, cpus, gpus, claims)
        self.prepare(runner)
        self.runners.append(runner)
        return runner

    def build(self, request, avoided):
        """Build at once on the first node, or after `build_s`; on the next if that one is lost."""
        ticket = next(self._numbers)
        index = request.config["index"]
        self.built.append(index)
        self._building[ticket] = [request, set(avoided), self.now + self.build_s, None]
        self._place(ticket)
        return ticket, f"code {index}".encode()

    def call(self, runner, method, *args):
        ticket = next(self._numbers)
        self._calls[ticket] = (runner, method, args)
        self._begin()
        return ticket

    def wait(self, tickets, seconds):
        end = self.now + seconds
        while True:
            self._begin()
            ready = [t for t in tickets if self._is_ready(t)]
            if ready:
                return ready
            ends = {t: self._end_of(t) for t in self._began if t not in self._answers}
            ends |= {t: at for t, (*_, at, node) in self._building.items()
                     if t in tickets and node is not None}  # fmt: skip
            first = min(ends, key=ends.get, default=None)
            if first is None or ends[first] > end:
                self.now = end
                return []
            self.now = max(self.now, ends[first])
            if first in self._building:
                continue
            runner, method, args = self._calls[first]
            if method in ("measure", "time_default") and args[1].config.index in self.poison:
                self.lost[runner] = "its memory was used up"
            else:
                self._answers[first] = runner.answer(method, *args)

    def result(self, ticket):
        if ticket in self._building:
            return self._built(*self._building.pop(ticket))
        runner = self._calls[ticket][0]
        if ticket not in self._answers:
            raise RunnerLostError(self.lost[runner])
        return self._answers[ticket]

    def stop(self, runner):
        self.lost.setdefault(runner, "it was stopped")

    def close(self):
        self.ended = True

    # -- its clock ---------------------------------------------------------------------------

    def _is_ready(self, ticket):
        if ticket in self._building:
            self._place(ticket)
            _, _, at, node = self._building[ticket]
            return node is not None and self.now >= at
        return ticket in self._answers or self._is_lost(ticket)

    def _place(self, ticket):
        """Let a node build; another one, from the beginning, if that node is gone."""
        _, avoided, _, node = self._building[ticket]
        if node is None or node not in self.alive:
            fit = [each for each in self.alive if each.cpus and each.id not in avoided]
            self._building[ticket][2:] = self.now + self.build_s, fit[0] if fit else None

    def _built(self, request, _avoided, _at, node):
        index = request.config["index"]
        end = self.ends_of_builds(node.name, index)
        if isinstance(end, str):
            raise RunnerLostError(end)
        if end is not None:
            return replace(end, node=node.id)
        body = {"code_hash": f"{index:x}", "kernels": None, "seconds": 0.1, "span": (0.0, 0.1)}
        return BuildAnswer(BUILT, Response("build", Message(body), (0.0, 0.1)), node=node.id)

    def _is_lost(self, ticket):
        return self._calls[ticket][0] in self.lost

    def _begin(self):
        """Begin the first pending call of each runner."""
        busy = set()
        for ticket, (runner, _, _) in self._calls.items():
            if ticket not in self._answers and not self._is_lost(ticket) and runner not in busy:
                busy.add(runner)
                self._began.setdefault(ticket, self.now)
        self._began = {t: at for t, at in self._began.items() if not self._is_lost(t)}

    def _end_of(self, ticket):
        runner, method, _ = self._calls[ticket]
        takes = {"measure": runner.takes, "time_default": runner.takes_default}.get(method, 0.0)
        return self._began[ticket] + (math.inf if takes is None else takes)


def fleet_on(cluster, address="auto"):
    return Fleet(Address.parse(address), lambda _: cluster, cluster.clock, cluster.sleep)


def measurer_on(cluster, devices=None, fleet=None, compares_on="one", **args):
    """Return a measurer of a small product on a cluster."""
    task = Task.from_reference("matmul", {"m": 16, "n": 16, "k": 16, **args})
    fleet = fleet or fleet_on(cluster)
    return FleetMeasurer(fleet, task, devices=devices, compares_on=compares_on)


def measured(measurer, count):
    """Submit candidates 0 to `count` - 1; return their results by index, each once."""
    submit(measurer, range(count))
    return until(measurer, count)


def submit(measurer, indices):
    for index in indices:
        measurer.submit(candidate(index))


def all_measured(cluster):
    """Return what the runners have measured, ascending; what several have, several times."""
    return sorted(index for runner in cluster.runners for index in runner.measured)


def until(measurer, wanted, found=None):
    """Return the results found and more by index, each once, as many as wanted."""
    found = {} if found is None else found
    while len(found) < wanted:
        each, result = measurer.next_result()
        assert each.config.index not in found
        found[each.config.index] = result
    return found


def mixed(runner):
    """Let nodes whose names begin with x be of another kind."""
    runner.device = XEON if runner.node.name.startswith("x") else ZEN


def failing(node: str, method: str) -> Callable[[FakeRunner], None]:
    """Return what lets a method fail on one node."""

    def prepare(runner: FakeRunner) -> None:
        if runner.node.name == node:
            runner.ends[method] = (FAILED, "no worker starts")

    return prepare
