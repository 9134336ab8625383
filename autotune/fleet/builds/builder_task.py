"""What builds on a node: a supervised process for each of the latest workloads.

Whatever a candidate does to the compiler costs that process, and one record: the cluster sees
neither crashes nor hangs.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from autotune.errors import AutotuneError, TargetError, UsageError
from autotune.fleet.package_digest import package_facts
from autotune.fleet.workload_spec import WorkloadSpec
from autotune.measure.candidate import describe
from autotune.measure.pool.messages import BYTES_AS_TEXT, Message
from autotune.measure.pool.single_builder import SingleBuilder
from autotune.measure.pool.worker_slot import Response
from autotune.measure.scheduler import open_timeout_s
from autotune.runtime.environment import code_facts
from autotune.system import host
from autotune.system.words import one_line
from autotune.target import Target

MAX_OPEN = 4  # Workloads that may keep a process at the same time.

# How a build has ended: the candidate has code, or its own error; the workload cannot be used; this
# node cannot build it.
BUILT, REFUSED, UNFIT = "built", "refused", "unfit"


@dataclass(frozen=True)
class DeviceFacts:
    """What code depends on of the device that runs it."""

    architecture: str  # Of its machine, such as x86_64.
    arch: str | None  # Of a GPU.
    made_for: Mapping[str, Any]  # See `environment.code_facts`.
    nvrtc: str | None = None  # Its node's version of the compiler for GPUs.

    @classmethod
    def of(cls, described: Mapping[str, Any]) -> DeviceFacts:
        """Return what `FleetRunner.describe` says of it."""
        nvrtc = described["versions"].get("nvrtc")
        return cls(described["architecture"], described["arch"], described["code"], nvrtc)

    @cached_property
    def key(self) -> str:
        """A text that is the same for devices that run the same code."""
        return repr((self.architecture, self.arch, sorted(self.made_for.items()), self.nvrtc))


@dataclass(frozen=True)
class BuildRequest:
    """A candidate to build."""

    spec: WorkloadSpec
    config: Mapping[str, Any]  # As records have it.
    device: DeviceFacts
    package: Mapping[str, str]  # Of the tuner, as `package_facts` has it.


@dataclass(frozen=True)
class BuildAnswer:
    """How a build has ended; its code comes beside it."""

    status: str  # BUILT, REFUSED or UNFIT.
    response: Response | None = None  # The builder's, without the code, if it has built.
    why: str = ""  # Else in words, why it has not.
    node: str = ""  # The id of the node.

    def with_code(self, code: bytes) -> Response:
        """Return the builder's response as if it had come from a builder of this machine."""
        assert self.response is not None
        outcome = self.response.outcome
        if not isinstance(outcome, Message):
            return self.response
        return self.response._replace(outcome=Message(outcome.body, code))


def build(request: BuildRequest) -> tuple[BuildAnswer, bytes]:
    """Build a candidate in a process of this machine; return how that ended, and the code."""
    try:
        why = _unfit(request)
        if why:
            return BuildAnswer(UNFIT, why=why), b""
        response = _builders().of(request).build(request.config)
    except UsageError as error:
        return BuildAnswer(REFUSED, why=one_line(str(error))), b""
    except AutotuneError as error:
        return BuildAnswer(UNFIT, why=one_line(str(error))), b""
    except Exception as error:
        return BuildAnswer(UNFIT, why=describe(error)), b""
    outcome = response.outcome
    if not isinstance(outcome, Message):
        return BuildAnswer(BUILT, response), b""
    if "elsewhere" in outcome.body:
        return BuildAnswer(UNFIT, why=outcome.body["elsewhere"]), b""
    return BuildAnswer(BUILT, response._replace(outcome=Message(outcome.body))), outcome.payload


def _unfit(request: BuildRequest) -> str:
    """Return why this node cannot build for a device; "" if it can."""
    here = package_facts()
    for name, value in request.package.items():
        if here.get(name) != value:
            return f"it has {name} {here.get(name)}, the tuner has {value}"
    if host.architecture() != request.device.architecture:
        return f"it is {host.architecture()}, the device's machine {request.device.architecture}"
    target = Target.of(request.spec.target)
    if target.kind == "cuda" and not target.on_cpu and request.device.arch is not None:
        from autotune.runtime.cuda import nvrtc  # for GPUs alone

        try:
            nvrtc.check_arch(request.device.arch)
            version = ".".join(map(str, nvrtc.version()))
        except TargetError as error:
            return one_line(str(error))
        if request.device.nvrtc not in (None, version):
            return f"it has NVRTC {version}, the node of the device {request.device.nvrtc}"
    return ""


class _Builders:
    """The builders of this process: only those of the latest workloads keep theirs."""

    def __init__(self) -> None:
        self._open: OrderedDict[tuple[str, str], SingleBuilder] = OrderedDict()

    def of(self, request: BuildRequest) -> SingleBuilder:
        """Return the builder of a workload for a device, which may be another machine's."""
        spec, device = request.spec, request.device
        key = (spec.key, device.key)
        found = self._open.get(key)
        if found is None:
            here, there = code_facts(Target.of(spec.target)), device.made_for
            opening = {
                "template": spec.reference,
                "text": None if spec.text is None else spec.text.decode(BYTES_AS_TEXT),
                "args": dict(spec.args),
                "constant": list(spec.constant),
                "target": spec.target,
                "arch": device.arch,
                "made_for": {name: there[name] for name in there if there[name] != here[name]},
            }
            opening_s = open_timeout_s(spec.timeout_s, None)
            found = self._open[key] = SingleBuilder(opening, spec.timeout_s, opening_s)
        self._open.move_to_end(key)
        while len(self._open) > MAX_OPEN:
            _, oldest = self._open.popitem(last=False)
            oldest.close()
        return found

    def close(self) -> None:
        """End all processes."""
        for builder in self._open.values():
            with contextlib.suppress(Exception):
                builder.close()
        self._open.clear()


@cache
def _builders() -> _Builders:
    return _Builders()


def close_builders() -> None:
    """End the processes that build here."""
    _builders().close()
