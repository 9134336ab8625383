"""What runs on a node: it owns one device, and holds a supervised measurer for each workload.

One object of `FleetRunner` lives in a process of the cluster; the tuner calls `answer`.
"""

from __future__ import annotations

import logging
import os
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from autotune.errors import AutotuneError, UsageError
from autotune.fleet.builds.builder_task import BuildAnswer
from autotune.fleet.package_digest import package_digest
from autotune.fleet.peers.reference_kernel import ReferenceTimes, time_reference
from autotune.fleet.workload_spec import WorkloadSpec
from autotune.measure.candidate import describe
from autotune.measure.local_measurer import LocalMeasurer
from autotune.measure.result import MeasureInput, MeasureResult
from autotune.measure.roofline import Ceiling
from autotune.runtime import environment
from autotune.runtime.backends import backend_of
from autotune.system import host
from autotune.system.words import one_line
from autotune.target import Target
from search_spaces import Config

MAX_OPEN = 4  # Workloads that may keep worker processes at the same time.

# How a call has ended: as it should; the workload cannot be used; the device has failed.
DONE, REFUSED, FAILED = "done", "refused", "failed"

# What is timed: nothing else may run on the machine meanwhile.
_TIMING = ("time_reference", "measure", "time_default", "compare", "ceiling")

Answer = tuple[str, Any, list[str]]  # How it ended, the result or a message, and warnings.


class FleetRunner:
    """Measures candidates on the device that its process was given.

    claim: keeps others from the machine as long as it is entered.
    """

    def __init__(self, claim: Callable[[], AbstractContextManager[object]] = nullcontext) -> None:
        self._claim = claim
        self._open: OrderedDict[str, LocalMeasurer] = OrderedDict()  # by the key of the workload
        self._warnings = _Warnings()
        logging.getLogger("autotune").addHandler(self._warnings)

    def answer(self, method: str, *args: Any) -> Answer:
        """Call a method; return its result or its error, so that no exception has to be pickled."""
        try:
            with self._claim() if method in _TIMING else nullcontext():
                status, value = DONE, getattr(self, method)(*args)
        except UsageError as error:
            status, value = REFUSED, one_line(str(error))
        except AutotuneError as error:
            status, value = FAILED, one_line(str(error))
        except Exception as error:
            status, value = FAILED, describe(error)
        return status, value, self._warnings.taken()

    # -- the device --------------------------------------------------------------------------

    def describe(self, target: str) -> dict[str, Any]:
        """Return what is known of the device and of this machine.

        "device": as in `Record.device`. "versions": of the packages here. "digest": of the files
        of autotune.
        "made_for": facts that rules look at when they make a schedule for this machine; "mcpu":
        what LLVM calls its processor.
        "gpu": the number of the GPU on this machine, where Ray has given one to this process.
        "architecture", "arch", "code": on which its code depends, see `DeviceFacts`.
        "machine", "cpus": which machine it is, and which of its CPUs this process may use.
        """
        parsed = Target.of(target)
        facts = backend_of(parsed).facts(parsed)  # an error says why there is no such device
        return {
            "device": environment.device(parsed),
            "gpu": os.environ.get("CUDA_VISIBLE_DEVICES"),
            "versions": environment.versions(parsed),
            "digest": package_digest(),
            "made_for": made_for(parsed),
            "architecture": host.architecture(),
            "arch": facts["arch"],
            "code": environment.code_facts(parsed),
            "mcpu": _mcpu() if parsed.kind == "llvm" else None,
            "machine": host.boot_id(),
            "cpus": sorted(os.sched_getaffinity(0)),
        }

    def time_reference(self, target: str) -> ReferenceTimes:
        """Time the reference kernels, with nothing else of ours running."""
        self.close_all()
        return time_reference(target)

    # -- candidates --------------------------------------------------------------------------

    def measure(
        self,
        spec: WorkloadSpec,
        candidate: MeasureInput,
        known: Sequence[MeasureResult],
        built: BuildAnswer | None = None,
        code: bytes | None = None,
    ) -> tuple[MeasureResult, float | None]:
        """Return the result of a candidate, and the seconds that opening the workload takes.

        known: results of others whose kernels need not be measured again.
        built, code: what was built of it; if nothing, it is built here.
        """
        measurer = self._measurer(spec)
        for result in known:
            measurer.remember(result)
        if built is not None and code is not None:
            measurer.give(candidate, built.with_code(code))
        return measurer.run(candidate), measurer.opening_s

    def time_default(
        self,
        spec: WorkloadSpec,
        candidate: MeasureInput,
        built: BuildAnswer | None = None,
        code: bytes | None = None,
    ) -> tuple[MeasureResult, float | None]:
        """Return the result of the default in new processes, whatever is known of it."""
        self.close(spec.key)
        return self.measure(spec, candidate, (), built, code)

    def compare(
        self,
        spec: WorkloadSpec,
        configs: Sequence[Config],
        seconds: float,
        seed: int,
        fresh: bool,
        check: bool,
        given: Mapping[int, BuildAnswer],
        *codes: bytes,
    ) -> dict[str, Any]:
        """Time candidates in turns; return "results", and what the next round depends on.

        given, codes: what was built of those that this runner does not have; code in their order.
            What is still missing is built here.
        """
        measurer = self._measurer(spec)
        by_index = {config.index: config for config in configs}
        for (index, built), code in zip(given.items(), codes, strict=True):
            candidate = MeasureInput(by_index[index])
            measurer.give(candidate, built.with_code(code), for_rounds=True)
        (results,) = measurer.compare(configs, seconds, seed, fresh, check)
        return {"results": results, "opening_s": measurer.opening_s, "built": [*measurer.built]}

    def ceiling(self, spec: WorkloadSpec) -> Ceiling:
        """Measure the device's peak for work of this kind and size."""
        return self._measurer(spec).ceiling()

    def close(self, key: str) -> None:
        """End the processes of a workload."""
        measurer = self._open.pop(key, None)
        if measurer is not None:
            measurer.close()

    def close_all(self) -> None:
        """End the processes of all workloads."""
        for key in [*self._open]:
            self.close(key)

    def _measurer(self, spec: WorkloadSpec) -> LocalMeasurer:
        """Return the measurer of a workload; only the latest few keep their processes."""
        found = self._open.get(spec.key)
        if found is None:
            found = self._open[spec.key] = LocalMeasurer(
                spec.reference,
                spec.args,
                spec.target,
                spec.policy,
                spec.timeout_s,
                spec.seed,
                1,  # It describes the workload; most candidates are built by others.
                text=spec.text,
                constant=spec.constant,
            )
        self._open.move_to_end(spec.key)
        while len(self._open) > MAX_OPEN:
            _, oldest = self._open.popitem(last=False)
            oldest.close()
        return found


def made_for(target: Target) -> dict[str, int]:
    """Return the facts of this machine by which rules make other schedules on another one."""
    if target.kind != "llvm":
        return {}
    found = environment.device(target)
    return {"threads": found["threads"], "vector_bytes": found["vector_bytes"]}


def _mcpu() -> str:
    from autotune.runtime.cpu.llvm_compiler import cpu_and_features  # loads LLVM

    return cpu_and_features("native")[0]


class _Warnings(logging.Handler):
    """Keeps warnings for the tuner, which is on another machine."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(one_line(record.getMessage()))

    def taken(self) -> list[str]:
        lines, self._lines = self._lines, []
        return lines
