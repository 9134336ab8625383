"""One workload under test inside a worker: builds, checks and times its candidates one by one.

The task stays traced, the inputs drawn and the right answer known from one candidate to the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from autotune.errors import AutotuneError
from autotune.ir import dtypes
from autotune.lowering.finalise import finalise
from autotune.measure.accuracy import Array, Comparison, Verdict, draw, poison
from autotune.measure.policy import TimingPolicy
from autotune.measure.reference import LARGEST_UNSCHEDULED, Program, expected_outputs
from autotune.measure.result import MeasureErrorNo
from autotune.measure.timing import time_kernel
from autotune.runtime.llvm import CompiledFunction, compile_function
from autotune.task import Task, code_hash
from search_spaces import KnobValue

_LONGEST_MESSAGE = 500


class CandidateError(Exception):
    """A candidate failed: code, stage and one line; the largest error of a wrong answer."""

    def __init__(
        self, code: MeasureErrorNo, stage: str, message: str, max_error: float | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.stage = stage
        self.message = message
        self.max_error = max_error


def describe(error: BaseException) -> str:
    """Return an exception as one line; our own errors need no type in front."""
    text = " ".join(str(error).split())
    if not isinstance(error, AutotuneError):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return text if len(text) <= _LONGEST_MESSAGE else f"{text[: _LONGEST_MESSAGE - 3]}..."


@dataclass(frozen=True)
class Built:
    """A candidate that compiled, or that is a kernel which was seen before."""

    code_hash: str
    fresh: bool


@dataclass(frozen=True)
class Ran:
    """Costs in seconds per repeat, and the largest error (None where there is no reference)."""

    costs_s: tuple[float, ...]
    max_error: float | None


class Workbench:
    """Builds and runs candidates of one task in this process.

    Parameters
    ----------
    task : Task
    policy : TimingPolicy
    seed : int
        Seed of the inputs.
    known : iterable of str
        Code hashes whose results are known: such candidates are not compiled.

    Attributes
    ----------
    reference : str
        What answers are checked with: "given" by the template, "unscheduled" program, or "none",
        where that would take too long.

    Raises
    ------
    UsageError
        If the template's reference fails or does not fit its outputs.
    """

    def __init__(
        self, task: Task, policy: TimingPolicy, seed: int, known: Iterable[str] = ()
    ) -> None:
        self.task = task
        self.policy = policy
        self._seed = seed
        self._known = set(known)
        self._kernel: CompiledFunction | None = None
        arguments = task.arguments
        self._arrays: list[Array] = [
            np.empty(a.shape, dtype=dtypes.numpy_dtype(a.dtype)) for a in arguments
        ]
        self._inputs = [x for x, a in zip(self._arrays, arguments, strict=True) if not a.is_output]
        self._outputs = [x for x, a in zip(self._arrays, arguments, strict=True) if a.is_output]
        self._signed = True
        self._draw()
        self._program = Program.of(task)
        self.reference, expected = self._expected()
        length, accumulator = self._program.reduction_length(), self._program.accumulator()
        self._checks = [Comparison(array, length, accumulator) for array in expected]

    def _draw(self) -> None:
        """Fill the inputs; the same seed gives the same values."""
        for number, array in enumerate(self._inputs):
            rng = np.random.default_rng([self._seed, number])
            array[...] = draw(array.shape, array.dtype.name, rng, self._signed)

    def _expected(self) -> tuple[str, list[Array]]:
        """Right answers; inputs become positive where other signs have no finite answer."""
        how, found = self._answers()
        if found and not all(bool(np.isfinite(array).all()) for array in found):
            self._signed = False
            self._draw()
            how, found = self._answers()
        return how, found

    def _answers(self) -> tuple[str, list[Array]]:
        task = self.task
        if task.reference is not None:
            name = task.workload.template
            return "given", expected_outputs(task.reference, self._inputs, self._outputs, name)
        if self._program.work() > LARGEST_UNSCHEDULED:
            return "none", []
        self._program.run(self._arrays, task.target)
        return "unscheduled", [array.copy() for array in self._outputs]

    def build(self, values: Mapping[str, KnobValue]) -> Built:
        """Instantiate and compile the candidate with these knob values.

        Raises
        ------
        CandidateError
            If the template refuses them, or the compiler the code.
        """
        self._kernel = None
        try:
            function = finalise(self.task.function_of(values))
            digest = code_hash(function)
        except (Exception, SystemExit) as error:
            raise CandidateError(
                MeasureErrorNo.INSTANTIATION_ERROR, "instantiate", describe(error)
            ) from error
        if digest in self._known:
            return Built(digest, fresh=False)
        try:
            self._kernel = compile_function(function, self.task.target)
        except (Exception, SystemExit) as error:
            raise CandidateError(MeasureErrorNo.COMPILE_HOST, "compile", describe(error)) from error
        self._known.add(digest)
        return Built(digest, fresh=True)

    def run(self) -> Ran:
        """Check and time the candidate that was built last.

        Raises
        ------
        CandidateError
            If it fails or computes something wrong.
        """
        kernel, self._kernel = self._kernel, None
        if kernel is None:
            raise CandidateError(MeasureErrorNo.UNKNOWN, "run", "no candidate was built")
        try:
            max_error = self._check(kernel)
            arrays = self._arrays
            costs = time_kernel(kernel.bind(*arrays), self.policy)
            if self._checks:
                max_error = self._judge(max_error)
        except CandidateError:
            self._draw()
            raise
        except (Exception, SystemExit) as error:
            self._draw()
            raise CandidateError(MeasureErrorNo.RUNTIME_DEVICE, "run", describe(error)) from error
        return Ran(costs, max_error)

    def _check(self, kernel: CompiledFunction) -> float | None:
        """Run once on poisoned outputs; a wrong answer gets a second trial on fresh inputs.

        An earlier candidate may have written where it should not.
        """
        if not self._checks:
            kernel(*self._arrays)
            return None
        self._run_poisoned(kernel)
        try:
            return self._judge()
        except CandidateError:
            self._draw()
            self._run_poisoned(kernel)
            return self._judge()

    def _run_poisoned(self, kernel: CompiledFunction) -> None:
        for output, check in zip(self._outputs, self._checks, strict=True):
            poison(output, check.expected)
        kernel(*self._arrays)

    def _judge(self, so_far: float | None = None) -> float:
        """Largest error of the outputs as they are now; CandidateError if one is wrong."""
        worst = so_far or 0.0
        for number, (check, output) in enumerate(zip(self._checks, self._outputs, strict=True)):
            verdict = check.check(output)
            if verdict.wrong:
                raise CandidateError(
                    MeasureErrorNo.WRONG_ANSWER,
                    "check",
                    self._wrong(number, output, check, verdict),
                    verdict.max_error,
                )
            worst = max(worst, verdict.max_error)
        return worst

    def _wrong(self, number: int, output: Array, check: Comparison, verdict: Verdict) -> str:
        names = [a.name for a in self.task.arguments if a.is_output]
        place = verdict.first or ()
        where = ", ".join(map(str, place))
        return (
            f"{verdict.wrong} of {output.size} elements of {names[number]} are wrong, "
            f"largest error {verdict.max_error:.3g} (tolerance {verdict.tolerance:.2g}); "
            f"first at [{where}]: {output[place]} instead of {check.expected[place]}"
        )
