"""One workload inside a runner: checks and times its candidates, whose machine code it is given.

The inputs stay drawn and the right answer known from one candidate to the next.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from autotune.measure.candidate import CandidateError, WorkloadDescription, describe
from autotune.measure.checks.check_cases import AnswerCheck, Given
from autotune.measure.checks.compare_outputs import OutputCheck, Verdict, poison
from autotune.measure.checks.guard_zones import Buffers, sealed
from autotune.measure.checks.prepare_checks import prepare
from autotune.measure.devices.cpu.benchmark_kernels import cache_flusher, reference_kernel
from autotune.measure.devices.cpu.cpu_roofline import measure_ceiling
from autotune.measure.interleaved_timing import reallocated, time_interleaved
from autotune.measure.noise_monitor import NoiseMonitor
from autotune.measure.result import MeasureErrorNo
from autotune.measure.roofline import Ceiling
from autotune.measure.timing import (
    TimedRepeats,
    lower_quartile_loop,
    retry_if_disturbed,
    time_kernel,
)
from autotune.measure.timing_policy import TimingPolicy
from autotune.runtime.cpu.compiled_kernel import Kernel
from autotune.target import Target


@dataclass(frozen=True)
class RunResult:
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


@dataclass(frozen=True)
class RoundTimes:
    """What kernels took that were timed in turns.

    Attributes
    ----------
    costs_s : dict of int to float
        Seconds per call, by number.
    noise : float or None
        How noisy the machine was at that time.
    clocks : dict or None
        As of `RunResult`.
    """

    costs_s: dict[int, float]
    noise: float | None = None
    clocks: dict[str, int] | None = None


def largest(errors: Iterable[float | None]) -> float | None:
    """Return the largest of some errors; None if none is known."""
    return max((error for error in errors if error is not None), default=None)


def wrong_answer_message(
    check: str, name: str, size: int, verdict: Verdict, found: object, right: object
) -> str:
    """Return in words what is wrong about an output of some size, with its first wrong element."""
    where = ", ".join(map(str, verdict.first or ()))
    return (
        f"{verdict.wrong} of {size} elements of {name} are wrong at {check}, "
        f"largest error {verdict.max_error:.3g}; "
        f"first at [{where}]: {found} instead of {right} (may be off by {verdict.allowed:.2g})"
    )


class _PreparedCheck:
    """A check, with the arrays to run candidates on.

    Attributes
    ----------
    buffers : Buffers
    """

    def __init__(self, subject: WorkloadDescription, check: AnswerCheck) -> None:
        self._check_name = check.what
        self.buffers = Buffers(subject.signature.parameters)
        for array, values in zip(self.buffers.inputs, check.inputs, strict=True):
            array[...] = values
        self.buffers.seal()
        self._names = [p.name for p in subject.signature.parameters if p.is_output]
        self._checks = [
            OutputCheck(sealed(right), allowed.errors)
            for right, allowed in zip(check.expected, check.allowed, strict=True)
        ]

    def check(self, kernel: Kernel) -> float | None:
        """Run once, on poisoned outputs if their right values are known; return the error."""
        for output, check in zip(self.buffers.outputs, self._checks, strict=False):
            poison(output, check.expected)
        kernel(*self.buffers.arrays)
        return self.compare_outputs()

    def compare_outputs(self) -> float | None:
        """Return the largest error of the outputs as they are now, None if unchecked.

        Raises
        ------
        CandidateError
            If one is wrong, or something was written to that is no output.
        """
        damage = self.buffers.find_damage()
        if damage is not None:
            raise CandidateError(MeasureErrorNo.WRONG_ANSWER, "check", damage)
        worst = None
        for output, check, name in zip(
            self.buffers.outputs, self._checks, self._names, strict=False
        ):
            verdict = check.check(output)
            if verdict.wrong:
                place = verdict.first or ()
                words = wrong_answer_message(
                    self._check_name,
                    name,
                    output.size,
                    verdict,
                    output[place],
                    check.expected[place],
                )
                code = MeasureErrorNo.WRONG_ANSWER
                raise CandidateError(code, "check", words, verdict.max_error)
            worst = max(worst or 0.0, verdict.max_error)
        return worst


class RunBench:
    """Runs candidates of one workload in this process.

    Parameters
    ----------
    subject : WorkloadDescription
        What is known of the workload.
    reference : callable or None
        Function of the input arrays that returns the right answer.
    unscheduled : Kernel or None
        The program without a schedule; computes the right answers if there is no reference.
    policy : TimingPolicy
    seed : int
        Seed of the inputs.
    given : callable, optional
        Draws realistic inputs, if the template does so itself.

    Attributes
    ----------
    reference : str
        What answers are checked with: "given" by the template, "unscheduled" program, or "none".
    notes : list of str
        What could not be had here, a line each.
    checks : list of str
        How precise answers must be, a line each.

    Raises
    ------
    UsageError
        If the template's reference fails or does not fit its outputs.
    """

    def __init__(
        self,
        subject: WorkloadDescription,
        reference: Callable[..., Any] | None,
        unscheduled: Kernel | None,
        policy: TimingPolicy,
        seed: int,
        given: Given | None = None,
    ) -> None:
        self.policy = policy
        self._reference = reference
        self.notes: list[str] = []
        self._subject = subject
        self._target = Target.of(subject.target).host
        self._monitor = NoiseMonitor(reference_kernel(self._target))
        prepared = prepare(subject, reference, unscheduled, given, seed)
        self.reference, self.checks = prepared.reference, prepared.words
        self._prepared = [_PreparedCheck(subject, check) for check in prepared.checks]
        self._buffers = self._prepared[-1].buffers

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

    def run(self, kernel: Kernel, incumbent_s: float | None = None) -> RunResult:
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
        self._monitor.sample()
        with self._as_candidate_error():
            errors = [prepared.check(kernel) for prepared in self._prepared]
            timed = self._time(kernel, incumbent_s)
            errors.append(self._prepared[-1].compare_outputs())
        return RunResult(timed.costs_s, largest(errors), timed.raced, self._monitor.noise)

    def enter(self, kernel: Kernel) -> float | None:
        """Check a kernel that is to be timed beside others; return its largest error.

        Raises
        ------
        CandidateError
            As `run`.
        """
        with self._as_candidate_error():
            return largest([prepared.check(kernel) for prepared in self._prepared])

    def round(self, kernels: Mapping[int, Kernel], seconds: float, seed: int) -> RoundTimes:
        """Time kernels that have been entered in turns, on arrays as a program would have them.

        They are called as it would call them, with their arrays.

        Parameters
        ----------
        kernels : mapping of int to Kernel
        seconds : float
            How long it may take, about.
        seed : int
            Of the order and the places of the arrays.
        """
        self._monitor.sample()
        rng = np.random.default_rng(seed)
        arrays, _between = reallocated(self._buffers.arrays, rng)
        calls = {number: partial(kernel, *arrays) for number, kernel in kernels.items()}
        flush = self._flush if self.policy.flush == "repeats" else None
        for call in calls.values():
            call()
        return RoundTimes(time_interleaved(calls, seconds, rng, flush=flush), self._monitor.noise)

    @contextlib.contextmanager
    def _as_candidate_error(self) -> Iterator[None]:
        """Make an error that of the candidate, and the arrays what they were."""
        try:
            yield
        except CandidateError:
            self._restore()
            raise
        except (Exception, SystemExit) as error:
            self._restore()
            raise CandidateError(MeasureErrorNo.RUNTIME_DEVICE, "run", describe(error)) from error

    def _restore(self) -> None:
        for prepared in self._prepared:
            prepared.buffers.restore()

    @cached_property
    def _flush(self) -> Callable[[], None]:
        return cache_flusher(self._target)

    def _time(self, kernel: Kernel, incumbent_s: float | None) -> TimedRepeats:
        flush = self._flush if self.policy.flush == "repeats" else None
        call = kernel.bind(*self._buffers.arrays)

        def timed(noisy: bool) -> TimedRepeats:
            # Where all repeats are disturbed, those that a race would save are needed.
            policy = replace(self.policy, race=0.0) if noisy else self.policy
            loop = lower_quartile_loop if noisy else None
            return time_kernel(call, policy, incumbent_s, flush, loop=loop)

        return retry_if_disturbed(timed, self._monitor, incumbent_s)


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
