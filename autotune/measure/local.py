"""Measures candidates on this machine, in a worker process that may crash or hang at any of them.

On a CPU one worker builds and runs, one candidate after the other: a busy neighbour would spoil
the timing.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any

from autotune.errors import AutotuneError, UsageError
from autotune.measure.ceiling import Ceiling
from autotune.measure.handle import WorkerDiedError, WorkerHandle, WorkerTimeoutError
from autotune.measure.policy import TimingPolicy
from autotune.measure.result import (
    MeasureError,
    MeasureErrorNo,
    MeasureInput,
    MeasureResult,
    StillWanted,
)
from autotune.target import Target

_log = logging.getLogger(__name__)

OPEN_TIMEOUT_S = 600.0
"""For tracing the template, drawing inputs and computing the reference, once per worker."""

#: Signals that come from outside (an administrator, the system when memory runs out).
_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM)

_CODES = {
    "build": (MeasureErrorNo.COMPILE_HOST, MeasureErrorNo.BUILD_TIMEOUT),
    "run": (MeasureErrorNo.RUNTIME_DEVICE, MeasureErrorNo.RUN_TIMEOUT),
}
_DOING = {"build": "building", "run": "running"}


class _OpeningKilledError(Exception):
    """A worker was killed from outside before it came to a candidate."""


class _KilledFromOutsideError(Exception):
    """A worker was killed from outside at a candidate; what that means if it happens again."""

    def __init__(self, result: MeasureResult) -> None:
        super().__init__("" if result.error is None else result.error.message)
        self.result = result


class LocalMeasurer:
    """Builds, checks and times candidates of one workload in worker processes.

    A context manager; `close` leaves no process and no file behind.

    Parameters
    ----------
    template : str
        Reference of the template: a name, or ``path/to/file.py:function``.
    args : mapping
        Its arguments.
    target : str or Target
    policy : TimingPolicy, optional
        How candidates are timed.
    timeout_s : float
        Seconds a candidate may take to build, and again to run.
    seed : int
        Seed of the inputs, >= 0.

    Attributes
    ----------
    reference : str or None
        What answers are checked with: "given", "unscheduled" or "none"; None before the first
        measurement.
    restarts : int
        Workers lost so far.
    """

    def __init__(
        self,
        template: str,
        args: Mapping[str, Any],
        target: str | Target,
        policy: TimingPolicy | None = None,
        timeout_s: float = 10.0,
        seed: int = 0,
    ) -> None:
        if not (math.isfinite(timeout_s) and timeout_s > 0):
            raise UsageError(f"a time-out must be a number of seconds > 0, not {timeout_s}")
        self.policy = policy or TimingPolicy()
        self.timeout_s = timeout_s
        self.reference: str | None = None
        self.restarts = 0
        self._opening = {
            "op": "open",
            "template": template,
            "args": dict(args),
            "target": str(target),
            "policy": self.policy.to_json(),
            "seed": seed,
        }
        self._results: dict[str, MeasureResult] = {}
        self._worker: WorkerHandle | None = None
        self._opened = False
        self._spare: WorkerHandle | None = None

    def __enter__(self) -> LocalMeasurer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """Start the worker without waiting for it; `measure` does so by itself."""
        if self._worker is None:
            self._worker = WorkerHandle()

    def close(self) -> None:
        """Kill the workers. The measurer can still be used: it would start new ones."""
        for worker in (self._worker, self._spare):
            if worker is not None:
                worker.kill()
        self._worker = self._spare = None
        self._opened = False

    def ceiling(self) -> Ceiling:
        """Measure, in the worker, what the machine can do at best for this workload.

        Raises
        ------
        AutotuneError
            If the worker does not get that far.
        """
        try:
            answer = self._ready_worker().request({"op": "ceiling"}, OPEN_TIMEOUT_S)
        except (WorkerDiedError, WorkerTimeoutError) as error:
            self._bury()
            raise AutotuneError(f"the machine's ceiling cannot be measured: {error}") from error
        return Ceiling.from_json(answer["ceiling"])

    def remember(self, result: MeasureResult) -> None:
        """Let candidates with the code hash of this result have it without being measured."""
        if result.code_hash is not None:
            self._results.setdefault(result.code_hash, result)

    def measure(
        self, inputs: Iterable[MeasureInput], still_wanted: StillWanted | None = None
    ) -> Iterator[tuple[MeasureInput, MeasureResult]]:
        """Yield each input with its result, as soon as that is known; leave out unwanted ones.

        A candidate that is the same kernel as an earlier one gets that one's result.

        Raises
        ------
        UsageError
            If the template or its reference cannot be used at all.
        AutotuneError
            If no worker gets as far as the first candidate.
        """
        self._settle_spare()
        for candidate in inputs:
            if still_wanted is None or still_wanted(candidate):
                yield candidate, self._measure(candidate)
        if self.restarts and self._spare is None:
            self._spare = WorkerHandle()  # where one candidate crashed others may

    def _settle_spare(self) -> None:
        """Wait for the spare worker, which must not start up beside a measurement."""
        if self._spare is not None:
            try:
                self._spare.wait_ready()
            except (WorkerDiedError, WorkerTimeoutError):
                self._spare.kill()
                self._spare = None

    def _measure(self, candidate: MeasureInput) -> MeasureResult:
        try:
            return self._attempt(candidate)
        except _KilledFromOutsideError as killed:
            # Not the candidate's fault, unless it happens again: it may exhaust the memory.
            _log.warning("%s; candidate %d is tried again", killed, candidate.config.index)
        try:
            return self._attempt(candidate)
        except _KilledFromOutsideError as killed:
            return killed.result

    def _attempt(self, candidate: MeasureInput) -> MeasureResult:
        """Build and run; _KilledFromOutsideError if the worker was."""
        worker = self._ready_worker()
        answer = self._ask(worker, "build", {"config": candidate.config.to_json()})
        if isinstance(answer, MeasureResult):
            return answer
        code_hash, build_s = answer["code_hash"], answer["seconds"]
        if not answer["fresh"]:
            return self._results[code_hash].as_reused(build_s)
        result = self._ask(worker, "run", {}, code_hash, build_s)
        if not isinstance(result, MeasureResult):
            result = MeasureResult(
                costs_s=tuple(result["costs_s"]),
                build_s=build_s,
                run_s=result["seconds"],
                code_hash=code_hash,
                max_error=result["max_error"],
            )
        self._results[code_hash] = result
        return result

    def _ask(
        self,
        worker: WorkerHandle,
        op: str,
        details: dict[str, Any],
        code_hash: str | None = None,
        build_s: float | None = None,
    ) -> dict[str, Any] | MeasureResult:
        """Return the worker's answer, or the failed result of the candidate that it ended at."""
        died, timed_out = _CODES[op]
        try:
            answer = worker.request({"op": op, **details}, self.timeout_s)
        except WorkerTimeoutError:
            self._bury()
            message = f"{_DOING[op]} took longer than {self.timeout_s:g} s"
            return _failed(timed_out, op, message, build_s=build_s, code_hash=code_hash)
        except WorkerDiedError as error:
            self._bury()
            message = f"the process {error} while {_DOING[op]}"
            result = _failed(died, op, message, build_s=build_s, code_hash=code_hash)
            if error.signal in _FROM_OUTSIDE:
                raise _KilledFromOutsideError(result) from error
            return result
        if "error" not in answer:
            return answer
        return MeasureResult(
            error=MeasureError.from_json(answer["error"]),
            build_s=build_s,
            run_s=answer["seconds"] if op == "run" else None,
            code_hash=code_hash,
            max_error=answer["max_error"],
        )

    def _ready_worker(self) -> WorkerHandle:
        """Return a worker that has the workload open."""
        if self._worker is not None and not self._worker.alive:
            self._bury()  # killed while it had nothing to do: no candidate is to blame
        if self._worker is not None and self._opened:
            return self._worker
        try:
            return self._open()
        except _OpeningKilledError as killed:
            _log.warning("%s; it is tried once more", killed)
        try:
            return self._open()
        except _OpeningKilledError as killed:
            raise AutotuneError(f"{killed}, twice") from killed

    def _bury(self) -> None:
        if self._worker is not None:
            self._worker.kill()
            self.restarts += 1
        self._worker = None
        self._opened = False

    def _open(self) -> WorkerHandle:
        """Let the worker, a new one if there is none, open the workload."""
        if self._worker is None:
            self._worker, self._spare = self._spare or WorkerHandle(), None
        worker = self._worker
        template = self._opening["template"]
        try:
            request = {**self._opening, "known": list(self._results), "path": _import_path()}
            answer = worker.request(request, OPEN_TIMEOUT_S)
        except (WorkerDiedError, WorkerTimeoutError) as error:
            self._bury()
            message = (
                f"template {template!r} cannot be measured: the process that started, traced it "
                f"and computed its reference failed ({error})"
            )
            if isinstance(error, WorkerDiedError) and error.signal in _FROM_OUTSIDE:
                raise _OpeningKilledError(message) from error
            raise AutotuneError(message) from error
        if "refused" in answer:
            self.close()
            raise UsageError(f"template {template!r} cannot be measured: {answer['refused']}")
        self._opened = True
        self.reference = answer["reference"]
        if self.reference == "none":
            _log.warning(
                "template %r has no reference and is too large to be computed without a "
                "schedule: its answers are not checked",
                template,
            )
        return worker


def _import_path() -> list[str]:
    """Folders that modules imported by a template are found in, as in this process."""
    return [os.path.abspath(folder) for folder in sys.path]


def _failed(
    code: MeasureErrorNo,
    stage: str,
    message: str,
    build_s: float | None = None,
    code_hash: str | None = None,
) -> MeasureResult:
    return MeasureResult(
        error=MeasureError(code, stage, message), build_s=build_s, code_hash=code_hash
    )
