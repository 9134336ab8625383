"""Times kernels for all sizes beside the best kernel of each shape, in a process of their own.

A kernel that crashes or hangs ends that process and not the one that waits for it.
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
from typing import Any, Self

import numpy as np

from autotune.errors import AutotuneError, error_text
from autotune.ir import dtypes
from autotune.lowering.split_constants import PreparedFunction
from autotune.measure.interleaved_timing import reallocated, time_interleaved
from autotune.operators.template_lookup import find_template
from autotune.runtime.cpu.llvm_compiler import compile_function
from autotune.shape_dispatch.candidates import Candidate
from autotune.system.environment_variables import own_environment
from autotune.target import Target
from autotune.task.task import Task
from autotune.trace.fingerprint import code_hash
from search_spaces import SpaceError

# Largest difference of two right answers, relative to the largest element.
_TOLERANCES = {"float64": 1e-10, "float32": 1e-4, "float16": 1e-2, "bfloat16": 1e-1}

TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Compared:
    """Times of one shape.

    `best_s`: seconds of the kernel for this shape alone.
    `costs_s`: of each candidate; inf where it failed or was wrong.
    `problems`: why, by the number of the candidate.
    """

    best_s: float
    costs_s: tuple[float, ...]
    problems: Mapping[int, str]


class ComparisonError(AutotuneError):
    """The process that times kernels ended, or took too long."""


class Bench:
    """Compiles kernels once and times them on any shape; everything happens in this process."""

    def __init__(self, reference: str, target: str) -> None:
        self._target = Target.of(target)
        self._template = find_template(reference, self._target)
        self._kernels: dict[str, Any] = {}
        self._codes: dict[str, str] = {}

    def prepared(self, candidate: Candidate) -> PreparedFunction:
        """Return the function of a candidate in final form."""
        return candidate.task(self._template, self._target).prepared_of(candidate.config)

    def fitted(self, candidate: Candidate) -> Candidate:
        """Return a candidate whose configuration is one of its own space: the nearest one.

        Rules may define other knobs where sizes are open.

        AutotuneError if the template does not work with open sizes.
        """
        try:
            _ = self.prepared(candidate)
        except (AutotuneError, SpaceError):
            task = candidate.task(self._template, self._target)
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

    def kernel(self, candidate: Candidate) -> Any:
        """Return a candidate as compiled, or the error that its template or compiler raised."""
        key = repr(candidate)
        if key not in self._kernels:
            try:
                made = self.prepared(candidate).main
                self._kernels[key] = compile_function(made, self._target)
            except (AutotuneError, SpaceError) as error:
                self._kernels[key] = error
        return self._kernels[key]

    def compare(
        self,
        args: Mapping[str, Any],
        config: Mapping[str, Any] | None,
        candidates: Sequence[Candidate],
        seconds: float,
        seed: int,
    ) -> Compared:
        """Time candidates on a shape, in turns with its own best kernel, after a check.

        `config`: of the best kernel; None for a shape that was not tuned: the fastest candidate
            takes its place, and answers are compared with those of the first.
        `seconds`: about how long each of them is timed.
        """
        task = Task(self._template, args, self._target)
        rng = np.random.default_rng(seed)
        arrays = [_drawn(p.fixed or (), p.dtype, rng) for p in task.arguments]
        outputs = [n for n, p in enumerate(task.arguments) if p.is_output]
        best = self.kernel(candidates[0]) if config is None else self._alone(task, config)
        best(*arrays)
        right = [arrays[n].copy() for n in outputs]
        arrays, _between = reallocated(arrays, rng)
        calls: dict[int, Any] = {} if config is None else {-1: best.bind(*arrays)}
        problems: dict[int, str] = {}
        for number, candidate in enumerate(candidates):
            kernel = self.kernel(candidate)
            if isinstance(kernel, Exception):
                problems[number] = error_text(kernel)
                continue
            for n in outputs:
                arrays[n].view(np.uint8)[...] = 0x55
            call = kernel.bind(*arrays)
            call()
            if all(_equal(arrays[n], own) for n, own in zip(outputs, right, strict=True)):
                calls[number] = call
            else:
                problems[number] = "its answer is wrong"
        found = time_interleaved(calls, seconds * len(calls), rng)
        costs = tuple(found.get(number, np.inf) for number in range(len(candidates)))
        return Compared(found.get(-1, min(costs)), costs, problems)

    def _alone(self, task: Task, config: Mapping[str, Any]) -> Any:
        """Return the best kernel of a shape alone."""
        return compile_function(task.prepared_of(config).main, self._target)


def _drawn(shape: tuple[int, ...], dtype: str, rng: np.random.Generator) -> Any:
    kind = dtypes.numpy_dtype(dtype)
    if dtypes.is_float(dtype):
        return rng.standard_normal(shape, np.float32).astype(kind)
    return rng.integers(0 if dtype.startswith(("u", "b")) else -8, 2, shape).astype(kind)


def _equal(found: Any, right: Any) -> bool:
    tolerance = _TOLERANCES.get(str(right.dtype))
    if tolerance is None:
        return bool(np.array_equal(found, right))
    wide = right.astype(np.float64)
    most = tolerance * max(float(np.abs(wide).max(initial=0.0)), 1e-30)
    return bool((np.abs(found.astype(np.float64) - wide) <= most).all())


class BenchProcess:
    """A `Bench` in another process: methods are called by name."""

    def __init__(self, reference: str, target: str, timeout_s: float = TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        code = "from autotune.shape_dispatch.comparison import serve; serve()"
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=own_environment(),
        )
        self.call("open", reference, target)

    def call(self, method: str, *args: Any) -> Any:
        """Return what a method of the bench returns.

        ComparisonError if the process ended or took too long; AutotuneError as the method raised.
        """
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            pickle.dump((method, args), process.stdin)
            process.stdin.flush()
            if not select.select([process.stdout], [], [], self._timeout_s)[0]:
                raise ComparisonError(f"kernels took longer than {self._timeout_s:g} s")
            worked, result = pickle.load(process.stdout)
        except (OSError, EOFError) as error:
            code = process.wait(10)
            raise ComparisonError(
                f"the process that times kernels ended with exit code {code}"
            ) from error
        if not worked:
            raise result
        return result

    def __enter__(self) -> Self:
        """Return the process itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._process.wait()


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
