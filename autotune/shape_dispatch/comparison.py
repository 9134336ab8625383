"""Times kernels for all sizes and the best kernel of each shape in turns, in a separate process.

If a kernel crashes or hangs, only that process ends, and another one is started.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np

from autotune.errors import AutotuneError, error_text
from autotune.lowering.lift_constants import PreparedFunction
from autotune.measure.build_bench import BuildBench
from autotune.measure.candidate import CandidateError
from autotune.measure.checks.program_reference import UnscheduledPrograms
from autotune.measure.run_bench import RunBench
from autotune.measure.timing_policy import TimingPolicy
from autotune.operators.template_lookup import find_template
from autotune.runtime.backends import backend_of
from autotune.runtime.cpu.llvm_compiler import CompiledFunction, compile_function
from autotune.shape_dispatch.candidates import Candidate
from autotune.system.environment_variables import own_environment
from autotune.target import Target
from autotune.task.task import Task
from autotune.trace.fingerprint import code_hash
from search_spaces import SpaceError

TIMEOUT_S = 120.0

_OWN = -1  # Number of the best kernel of a shape, among those that are compared.
_INPUTS_SEED = 0


@dataclass(frozen=True)
class ShapeTimes:
    """Times of one shape.

    `best_s`: seconds of the kernel for this shape alone; of the fastest one, if that failed.
    `costs_s`: of each candidate; inf where it failed or was wrong.
    `problems`: why, by the number of the candidate; -1 is the kernel for this shape alone.
    """

    best_s: float
    costs_s: tuple[float, ...]
    problems: Mapping[int, str]


class ComparisonError(AutotuneError):
    """A kernel cannot be made or timed."""


class ProcessEndedError(ComparisonError):
    """The process that times kernels ended, or took too long."""


class Bench:
    """Compiles kernels once and times them on any shape; everything happens in this process."""

    def __init__(self, reference: str, target: str) -> None:
        self._target = Target.of(target)
        template = find_template(reference, self._target)
        self._task_of = partial(Task, template, target=self._target, template_ref=reference)
        self._device = backend_of(self._target).take_device(self._target)
        self._kernels: dict[str, CompiledFunction | Exception] = {}
        self._codes: dict[str, str] = {}

    def prepared(self, candidate: Candidate) -> PreparedFunction:
        """Return the function of a candidate in final form."""
        return candidate.task(self._task_of).prepared_of(candidate.config)

    def fitted(self, candidate: Candidate) -> Candidate:
        """Return a candidate whose configuration is one of its own space: the nearest one.

        Rules may define other knobs where sizes are open.

        AutotuneError if the template does not work with open sizes.
        """
        try:
            _ = self.prepared(candidate)
        except (AutotuneError, SpaceError):
            task = candidate.task(self._task_of)
            space = task.space
            values = dict(space.config(task.default_index).values)
            for name, value in candidate.config.items():
                try:
                    _ = space.index_of({**values, name: value})
                except SpaceError:
                    continue
                values |= {name: value} if name in values else {}
            index = task.nearest_legal(space.index_of(values))
            config = space.config(task.default_index if index is None else index)
            return replace(candidate, config=dict(config.values))
        return candidate

    def code(self, candidate: Candidate) -> str:
        """Return what is equal for candidates with the same code."""
        key = repr(candidate)
        if key not in self._codes:
            self._codes[key] = code_hash(self.prepared(candidate).main)
        return self._codes[key]

    def kernel(self, candidate: Candidate) -> CompiledFunction | Exception:
        """Return a candidate as compiled, or the error that its template or compiler raised."""
        key = repr(candidate)
        if key not in self._kernels:
            try:
                made = self.prepared(candidate).main
                self._kernels[key] = compile_function(made, self._target)
            except (AutotuneError, SpaceError) as error:
                self._kernels[key] = error
        return self._kernels[key]

    def compiles(self, candidate: Candidate) -> bool:
        """Compile a candidate; return whether that works."""
        return not isinstance(self.kernel(candidate), Exception)

    def compare(
        self,
        args: Mapping[str, Any],
        config: Mapping[str, Any] | None,
        candidates: Sequence[Candidate],
        seconds: float,
        seed: int,
    ) -> ShapeTimes:
        """Time candidates on a shape, in turns with its own best kernel.

        All are checked before, as measured candidates are.

        `config`: of the best kernel; None for a shape that was not tuned: the fastest candidate
            takes its place.
        `seconds`: about how long each of them is timed.
        """
        task = self._task_of(args)
        kernels = dict(enumerate(map(self.kernel, candidates)))
        own = None if config is None else self._alone(task, config)
        if own is not None:
            kernels[_OWN] = own
        bench = self._checks(task, own)
        problems, right = dict[int, str](), dict[int, CompiledFunction]()
        for number, kernel in sorted(kernels.items()):
            if isinstance(kernel, Exception):
                problems[number] = error_text(kernel)
                continue
            try:
                _ = bench.enter(kernel)
                right[number] = kernel
            except CandidateError as error:
                problems[number] = error.message
        found = dict[int, float]()
        if right:
            whole_s = seconds * len(right)
            # Python needs longer to read sizes off arrays, whatever kernel is picked.
            timed = bench.round(list(right.values()), whole_s, seed, bound=True)
            found = dict(zip(right, timed.costs_s, strict=True))
        costs = tuple(found.get(number, np.inf) for number in range(len(candidates)))
        return ShapeTimes(found.get(_OWN, min(costs, default=np.inf)), costs, problems)

    def _alone(self, task: Task, config: Mapping[str, Any]) -> CompiledFunction:
        """Return the best kernel of a shape alone."""
        return compile_function(task.prepared_of(config).main, self._target)

    def _checks(self, task: Task, own: CompiledFunction | None) -> RunBench:
        """Return what checks and times kernels of a shape.

        Where the template has no reference and the program without a schedule would take too long,
        answers are compared with those of the shape's own best kernel, if there is one.
        """
        subject, unscheduled = BuildBench(task).subject()
        computed: UnscheduledPrograms[Any] | None = None
        if unscheduled is not None:
            computed = unscheduled.loaded(self._device.load)
        elif own is not None:
            computed = UnscheduledPrograms(own)
        return RunBench(
            self._device, subject, task.reference, computed, TimingPolicy(), _INPUTS_SEED,
            task.inputs, accept=task.accept,
        )  # fmt: skip


class BenchProcess:
    """A `Bench` in another process: methods are called by name.

    When the process has ended, the next call starts another one.
    """

    def __init__(self, reference: str, target: str, timeout_s: float = TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._given = reference, target
        self._process: subprocess.Popen[bytes] | None = None

    def call(self, method: str, *args: Any) -> Any:
        """Return what a method of the bench returns.

        ProcessEndedError if the process ended or took too long; ComparisonError with the message
        of what the method raised.
        """
        if self._process is None:
            code = "from autotune.shape_dispatch.comparison import serve; serve()"
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", code],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=own_environment(),
            )
            self._request("open", *self._given)
        return self._request(method, *args)

    def _request(self, method: str, *args: Any) -> Any:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            pickle.dump((method, args), process.stdin)
            process.stdin.flush()
            if not select.select([process.stdout], [], [], self._timeout_s)[0]:
                self.close()
                raise ProcessEndedError(f"kernels took longer than {self._timeout_s:g} s")
            worked, result = pickle.load(process.stdout)
        except (OSError, EOFError) as error:
            code = process.wait(10)
            self.close()
            raise ProcessEndedError(
                f"the process that times kernels ended with exit code {code}"
            ) from error
        if not worked:
            raise result
        return result

    def close(self) -> None:
        """End the process, if there is one."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        process.wait()

    def __enter__(self) -> Self:
        """Return the process itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        self.close()


def serve() -> None:
    """Answer requests of a `BenchProcess`; what templates print goes to the standard error."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    bench: Bench | None = None
    while True:
        try:
            method, args = pickle.load(requests)
        except EOFError:
            return
        try:
            if method == "open":
                bench, result = Bench(*args), None
            else:
                result = getattr(bench, method)(*args)
            answer = (True, result)
        except (AutotuneError, SpaceError) as error:
            answer = (False, ComparisonError(error_text(error)))
        pickle.dump(answer, answers)
        answers.flush()
