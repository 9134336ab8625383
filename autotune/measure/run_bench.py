"""One workload inside a runner: checks and times its candidates, whose machine code it is given.

The inputs stay drawn and the right answer known from one candidate to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from autotune.measure.accuracy import Array, Comparison, Verdict, draw, poison
from autotune.measure.buffers import Buffers, sealed
from autotune.measure.candidate import CandidateError, Subject, describe
from autotune.measure.ceiling import Ceiling
from autotune.measure.kernels import emptying_caches, reference_kernel
from autotune.measure.machine import measure_ceiling
from autotune.measure.noise import NoiseMonitor
from autotune.measure.policy import TimingPolicy
from autotune.measure.reference import expected_outputs
from autotune.measure.result import MeasureErrorNo
from autotune.measure.timing import Timed, time_kernel
from autotune.runtime.kernel import Kernel
from autotune.target import Target


@dataclass(frozen=True)
class Ran:
    """What became of a candidate that ran and was right.

    Attributes
    ----------
    costs_s : tuple of float
        Seconds per call, one number per repeat.
    max_error : float or None
        Largest error of any output element; None where there is no reference.
    raced : bool
        Whether timing stopped early, as it was clearly slower than the incumbent.
    noise : float or None
        How noisy the machine was at that time.
    clocks : dict or None
        A GPU's clocks in MHz, "sm_mhz" and "memory_mhz", when it was timed; None if not known.
    """

    costs_s: tuple[float, ...]
    max_error: float | None
    raced: bool = False
    noise: float | None = None
    clocks: dict[str, int] | None = None


def wrong_words(name: str, size: int, verdict: Verdict, found: object, right: object) -> str:
    """Return in words what is wrong about an output of some size, with its first wrong element."""
    where = ", ".join(map(str, verdict.first or ()))
    return (
        f"{verdict.wrong} of {size} elements of {name} are wrong, "
        f"largest error {verdict.max_error:.3g} (tolerance {verdict.tolerance:.2g}); "
        f"first at [{where}]: {found} instead of {right}"
    )


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
    notes : list of str
        What could not be had here, a line each.

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
        self._reference = reference
        self.notes: list[str] = []
        self._seed = seed
        self._subject = subject
        self._target = Target.of(subject.target).host
        self._monitor = NoiseMonitor(reference_kernel(self._target))
        self._buffers = Buffers(subject.signature.parameters)
        self._draw(signed=True)
        self.reference, expected = self._expected(reference, unscheduled)
        self._buffers.seal()
        self._checks = [
            Comparison(sealed(array), subject.reduction_length, subject.accumulator)
            for array in expected
        ]

    def _draw(self, signed: bool) -> None:
        """Fill the inputs; the same seed gives the same values."""
        for number, array in enumerate(self._buffers.inputs):
            rng = np.random.default_rng([self._seed, number])
            array[...] = draw(array.shape, array.dtype.name, rng, signed)

    def _expected(
        self, reference: Callable[..., Any] | None, unscheduled: Kernel | None
    ) -> tuple[str, list[Array]]:
        """Right answers; inputs become positive where other signs have no finite answer."""
        buffers = self._buffers

        def answers() -> tuple[str, list[Array]]:
            if reference is not None:
                name = self._subject.signature.name
                return "given", expected_outputs(reference, buffers.inputs, buffers.outputs, name)
            if unscheduled is None:
                return "none", []
            unscheduled(*buffers.arrays)
            return "unscheduled", [array.copy() for array in buffers.outputs]

        how, found = answers()
        if found and not all(bool(np.isfinite(array).all()) for array in found):
            self._draw(signed=False)
            how, found = answers()
        return how, found

    def ceiling(self) -> Ceiling:
        """Measure what the machine can do at best for work of this kind and size."""
        parameters = self._subject.signature.parameters
        kinds = sorted({parameter.dtype for parameter in parameters})
        touched = None
        if self.policy.flush == "off":
            touched = float(sum(array.nbytes for array in self._buffers.arrays))
        return measure_ceiling(self._target, kinds, touched)

    def baseline(self) -> tuple[float, ...] | None:
        """Time the reference itself, as candidates are timed; None if there is none.

        NumPy's own functions write into the outputs, as candidates do; what others return counts
        when it lies in memory like an output: a view of the inputs is copied.

        Returns
        -------
        tuple of float
            Seconds per call, one number per repeat.
        """
        if self._reference is None:
            return None
        call = reference_call(
            self._reference, self._buffers.inputs, self._buffers.outputs, np.ascontiguousarray
        )
        with np.errstate(all="ignore"):
            call()
            flush = self._flush if self.policy.flush == "repeats" else None
            return time_kernel(call, self.policy, None, flush).costs_s

    def run(self, kernel: Kernel, incumbent_s: float | None = None) -> Ran:
        """Check and time a candidate.

        Parameters
        ----------
        kernel : Kernel
        incumbent_s : float, optional
            Seconds that the fastest candidate so far takes.

        Raises
        ------
        CandidateError
            If it fails, computes something wrong, or writes where it may not.
        """
        self._monitor.look()
        try:
            max_error = self._check(kernel)
            timed = self._time(kernel, incumbent_s)
            max_error = self._judge(max_error)
        except CandidateError:
            self._buffers.restore()
            raise
        except (Exception, SystemExit) as error:
            self._buffers.restore()
            raise CandidateError(MeasureErrorNo.RUNTIME_DEVICE, "run", describe(error)) from error
        return Ran(timed.costs_s, max_error, timed.raced, self._monitor.noise)

    @cached_property
    def _flush(self) -> Callable[[], None]:
        return emptying_caches(self._target)

    def _time(self, kernel: Kernel, incumbent_s: float | None) -> Timed:
        flush = self._flush if self.policy.flush == "repeats" else None
        # Where all repeats are disturbed, those that a race would save are needed.
        policy = replace(self.policy, race=0.0) if self._monitor.noisy else self.policy
        return time_kernel(kernel.bind(*self._buffers.arrays), policy, incumbent_s, flush)

    def _check(self, kernel: Kernel) -> float | None:
        """Run once, on poisoned outputs if their right values are known."""
        for output, check in zip(self._buffers.outputs, self._checks, strict=False):
            poison(output, check.expected)
        kernel(*self._buffers.arrays)
        return self._judge()

    def _judge(self, so_far: float | None = None) -> float | None:
        """Largest error of the outputs as they are now, None if unchecked.

        CandidateError if one is wrong, or something was written to that is no output.
        """
        damage = self._buffers.damage()
        if damage is not None:
            raise CandidateError(MeasureErrorNo.WRONG_ANSWER, "check", damage)
        worst = so_far
        for number, check in enumerate(self._checks):
            verdict = check.check(self._buffers.outputs[number])
            if verdict.wrong:
                raise CandidateError(
                    MeasureErrorNo.WRONG_ANSWER,
                    "check",
                    self._wrong(number, verdict),
                    verdict.max_error,
                )
            worst = max(worst or 0.0, verdict.max_error)
        return worst

    def _wrong(self, number: int, verdict: Verdict) -> str:
        names = [p.name for p in self._subject.signature.parameters if p.is_output]
        output, check = self._buffers.outputs[number], self._checks[number]
        place = verdict.first or ()
        return wrong_words(
            names[number], output.size, verdict, output[place], check.expected[place]
        )


def reference_call(
    reference: Callable[..., Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    contiguous: Callable[[Any], object],
) -> Callable[[], object]:
    """Return a call of a reference that leaves whole outputs in memory, made `contiguous`."""
    if isinstance(reference, np.ufunc):
        return partial(reference, *inputs, out=tuple(outputs))

    def call() -> None:
        found = reference(*inputs)
        for array in found if isinstance(found, list | tuple) else [found]:
            contiguous(array)

    return call
