"""One workload inside a runner: checks and times its candidates, whose machine code it is given.

The inputs stay drawn and the right answer known from one candidate to the next.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from autotune.ir import dtypes
from autotune.measure.accuracy import Array, Comparison, Verdict, draw, poison
from autotune.measure.candidate import CandidateError, Subject, describe
from autotune.measure.policy import TimingPolicy
from autotune.measure.reference import expected_outputs
from autotune.measure.result import MeasureErrorNo
from autotune.measure.timing import time_kernel
from autotune.runtime.kernel import Kernel


@dataclass(frozen=True)
class Ran:
    """Costs in seconds per repeat, and the largest error (None where there is no reference)."""

    costs_s: tuple[float, ...]
    max_error: float | None


class RunBench:
    """Runs candidates of one workload in this process.

    Parameters
    ----------
    subject : Subject
        What is known of the workload.
    reference : callable or None
        Function of the input arrays that returns the right answer.
    unscheduled : Kernel or None
        The program without a schedule; says what is right if there is no reference.
    policy : TimingPolicy
    seed : int
        Seed of the inputs.

    Attributes
    ----------
    reference : str
        What answers are checked with: "given" by the template, "unscheduled" program, or "none".

    Raises
    ------
    UsageError
        If the template's reference fails or does not fit its outputs.
    """

    def __init__(
        self,
        subject: Subject,
        reference: Callable[..., Any] | None,
        unscheduled: Kernel | None,
        policy: TimingPolicy,
        seed: int,
    ) -> None:
        self.policy = policy
        self._seed = seed
        self._subject = subject
        parameters = subject.signature.parameters
        self._arrays: list[Array] = [
            np.empty(p.fixed or (), dtype=dtypes.numpy_dtype(p.dtype)) for p in parameters
        ]
        pairs = list(zip(self._arrays, parameters, strict=True))
        self._inputs = [array for array, parameter in pairs if not parameter.is_output]
        self._outputs = [array for array, parameter in pairs if parameter.is_output]
        self._signed = True
        self._draw()
        self.reference, expected = self._expected(reference, unscheduled)
        self._checks = [
            Comparison(array, subject.reduction_length, subject.accumulator) for array in expected
        ]

    def _draw(self) -> None:
        """Fill the inputs; the same seed gives the same values."""
        for number, array in enumerate(self._inputs):
            rng = np.random.default_rng([self._seed, number])
            array[...] = draw(array.shape, array.dtype.name, rng, self._signed)

    def _expected(
        self, reference: Callable[..., Any] | None, unscheduled: Kernel | None
    ) -> tuple[str, list[Array]]:
        """Right answers; inputs become positive where other signs have no finite answer."""

        def answers() -> tuple[str, list[Array]]:
            if reference is not None:
                name = self._subject.signature.name
                return "given", expected_outputs(reference, self._inputs, self._outputs, name)
            if unscheduled is None:
                return "none", []
            unscheduled(*self._arrays)
            return "unscheduled", [array.copy() for array in self._outputs]

        how, found = answers()
        if found and not all(bool(np.isfinite(array).all()) for array in found):
            self._signed = False
            self._draw()
            how, found = answers()
        return how, found

    def run(self, kernel: Kernel) -> Ran:
        """Check and time a candidate.

        Raises
        ------
        CandidateError
            If it fails or computes something wrong.
        """
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

    def _check(self, kernel: Kernel) -> float | None:
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

    def _run_poisoned(self, kernel: Kernel) -> None:
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
        names = [p.name for p in self._subject.signature.parameters if p.is_output]
        place = verdict.first or ()
        where = ", ".join(map(str, place))
        return (
            f"{verdict.wrong} of {output.size} elements of {names[number]} are wrong, "
            f"largest error {verdict.max_error:.3g} (tolerance {verdict.tolerance:.2g}); "
            f"first at [{where}]: {output[place]} instead of {check.expected[place]}"
        )
