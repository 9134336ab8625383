"""One workload inside a runner: checks and times its candidates, whose machine code it is given.

Inputs, right answers and checks stay on the device from one candidate to the next.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from autotune.errors import AutotuneError, CodegenError, UsageError, error_text
from autotune.measure.candidate import CandidateError, WorkloadDescription, describe
from autotune.measure.checks.check_inputs import Given
from autotune.measure.checks.check_spec import Accept, AnswerCheck
from autotune.measure.checks.compare_outputs import OutputCheck
from autotune.measure.checks.guard_zones import Buffers
from autotune.measure.checks.prepare_checks import prepare
from autotune.measure.checks.program_reference import UnscheduledPrograms
from autotune.measure.checks.reference import ReferenceOnDevice, read_only
from autotune.measure.result import MeasureErrorNo
from autotune.measure.roofline import Ceiling, measure_ceiling
from autotune.measure.timing.interleaved_timing import reallocated, time_interleaved
from autotune.measure.timing.kernel_timing import (
    Loop,
    TimedRepeats,
    lower_quartile_loop,
    own_time_loop,
    retry_if_disturbed,
    time_kernel,
    timed_loop,
)
from autotune.measure.timing.noise_monitor import NoiseMonitor
from autotune.measure.timing_policy import TimingPolicy
from autotune.runtime.callable_function import CallableBinary, CallableFunction
from autotune.runtime.device import Binary, Call, Device
from autotune.runtime.prepared_binary import PreparedBinary, PreparedCandidate

#: About how long a built function takes to check the arrays that it is called with.
CHECK_S = 4e-6


@dataclass(frozen=True)
class RunResult:
    """The result of a candidate that ran and was right, or of a round."""

    costs_s: tuple[float, ...]  # Seconds per call: one number per repeat, or per kernel of a round.
    # Largest error of any output element; None where there is no reference, and of a round.
    max_error: float | None = None
    # Whether timing stopped early, as it was clearly slower than the incumbent.
    raced: bool = False
    noise: float | None = None  # The noise of the machine at that time.
    # A GPU's clocks in MHz, "sm_mhz" and "memory_mhz", when it was timed; None if not known.
    clocks: dict[str, int] | None = None


class _PreparedCheck:
    """A check, with the arrays on the device to run candidates on."""

    def __init__(self, device: Device, subject: WorkloadDescription, check: AnswerCheck) -> None:
        self._check_name = check.what
        self._device = device
        self.buffers = Buffers(device, subject.signature.parameters)
        self.buffers.fill(check.inputs)
        self._names = [p.name for p in subject.signature.parameters if p.is_output]
        self._checks = [
            OutputCheck(device, right, allowed.errors)
            for right, allowed in zip(check.expected, check.allowed, strict=True)
        ]
        self._accept = check.accept
        self._template = subject.signature.name
        self._expected = [read_only(right) for right in check.expected] if check.accept else []

    @property
    def intact(self) -> bool:
        """Whether the expected results and inputs are unchanged."""
        return self.buffers.intact and all(check.is_intact for check in self._checks)

    def warm_up(self) -> None:
        """Do all that checks may take: a library may compile it at the first time."""
        for output, check in zip(self.buffers.outputs, self._checks, strict=False):
            check.poison(output)
            check.check(output)
        self.buffers.find_damage()
        self.buffers.restore()

    def check(self, call: Call, copied: Sequence[tuple[int, int]] = ()) -> float | None:
        """Run once, on poisoned outputs if their right values are known; return the error.

        copied: pairs of an input, and an output that begins with its values.
        """
        for output, check in zip(self.buffers.outputs, self._checks, strict=False):
            check.poison(output)
        for given, output in copied:
            self.buffers.arrays[output][...] = self.buffers.arrays[given]
        self._device.wait()
        call()
        self._device.wait()
        return self.compare_outputs()

    def compare_outputs(self) -> float | None:
        """Return the largest error of the outputs as they are now, None if unchecked.

        CandidateError if an output is wrong, or the kernel wrote to anything else.
        """
        code = MeasureErrorNo.WRONG_ANSWER
        damage = self.buffers.find_damage()
        if damage is not None:
            raise CandidateError(code, "check", damage)
        if self._accept is not None:
            self._ask(self._accept)
            return None
        worst = None
        for output, check, name in zip(
            self.buffers.outputs, self._checks, self._names, strict=False
        ):
            verdict = check.check(output)
            if verdict.wrong:
                place = verdict.first or ()
                found, right = check.values_at(output, place)
                words = (
                    f"{verdict.wrong} of {output.size} elements of {name} are wrong at "
                    f"{self._check_name}, largest error {verdict.max_error:.3g}; first at "
                    f"[{', '.join(map(str, place))}]: {found} instead of {right} "
                    f"(may be off by {verdict.allowed:.2g})"
                )
                raise CandidateError(code, "check", words, verdict.max_error)
            worst = max(worst or 0.0, verdict.max_error)
        return worst

    def _ask(self, accept: Accept) -> None:
        """Raise CandidateError if the template does not accept the outputs, or fails."""
        kinds = [array.dtype for array in self._expected]
        outputs = map(self._device.download, self.buffers.outputs)
        found = [read_only(o.view(kind)) for o, kind in zip(outputs, kinds, strict=True)]
        code = MeasureErrorNo.WRONG_ANSWER
        try:
            said = accept(list(self._expected), found)
            is_right = not isinstance(said, str) and bool(said)
        except (Exception, SystemExit) as error:
            words = f"accept of template {self._template!r} failed: {describe(error)}"
            hint = "; it may not change its arrays" if "read-only" in words else ""
            raise CandidateError(code, "check", words + hint) from error
        if not is_right:
            lines = said.strip().splitlines() if isinstance(said, str) else []
            words = lines[0] if lines else "the template does not accept its answer"
            raise CandidateError(code, "check", words)


class RunBench:
    """Runs candidates of one workload on the device that this process owns.

    subject: what is known of the workload.
    reference: function of the input arrays that returns the right answer: arrays of the device's
        library, or NumPy's.
    unscheduled: the program without a schedule, for the CPU; computes the right answers if there is
        no reference.
    seed: seed of the inputs.
    given: draws realistic inputs, if the template does so itself.
    callable_of: returns the Python callable for some knob values, if the template gives one.
    accept: the template's own check of answers, if it has one.

    UsageError if the template's reference fails or does not fit its outputs, or the device has too
    little memory.
    """

    def __init__(
        self,
        device: Device,
        subject: WorkloadDescription,
        reference: Callable[..., Any] | None,
        unscheduled: UnscheduledPrograms[Callable[..., Any]] | None,
        policy: TimingPolicy,
        seed: int,
        given: Given | None = None,
        callable_of: Callable[[Mapping[str, Any]], CallableFunction | None] | None = None,
        accept: Accept | None = None,
    ) -> None:
        self.policy = policy
        self._callable_of = callable_of
        self._function = reference
        self._reference = None if reference is None else ReferenceOnDevice(device, reference)
        self.subject = subject
        self._device = device
        self._monitor = _noise_monitor(device)
        self.notes = device.notes  # what could not be had here, a line each
        try:
            prepared = prepare(subject, self._reference, unscheduled, given, seed, accept)
            # What answers are checked with: "given" by the template, "unscheduled" or "none".
            self.reference = prepared.reference
            self.checks = prepared.words  # how precise answers must be, a line each
            self._prepared = [_PreparedCheck(device, subject, check) for check in prepared.checks]
            self._buffers = self._prepared[-1].buffers
            if not device.is_host:
                for each in self._prepared:
                    each.warm_up()
            device.wait()
        except MemoryError as error:  # CuPy's is of this type
            raise UsageError(self._too_large(error)) from error

    def _too_large(self, error: MemoryError) -> str:
        parameters = self.subject.signature.parameters
        kinds = [self._device.stored_as(p.dtype) for p in parameters]
        sizes = [
            kind.itemsize * float(np.prod(p.fixed or ()))
            for kind, p in zip(kinds, parameters, strict=True)
        ]
        return (
            f"{self._device.name} has too little memory: the arrays of "
            f"{self.subject.signature.name} take {sum(sizes) / 2**30:.3g} GiB, some six "
            f"times that with what they are checked with, of "
            f"{self._device.memory_bytes / 2**30:.3g} GiB: {' '.join(error_text(error).split())}"
        )

    # -- the machine -----------------------------------------------------------------------

    def ceiling(self) -> Ceiling:
        """Measure the device's peak for work of this kind and size."""
        buffers = self._buffers
        kinds = sorted({parameter.dtype for parameter in self.subject.signature.parameters})
        touched = float(buffers.nbytes) if self.policy.flush == "off" else None
        library = self._device.library(self._function, buffers.inputs, buffers.outputs)
        return measure_ceiling(self._device, kinds, touched, library)

    def baseline(self) -> tuple[float, ...] | None:
        """Time the reference itself, as candidates are timed; None if there is none.

        Seconds per call, one number per repeat.

        CandidateError if it is for NumPy's arrays alone, and candidates run elsewhere.
        """
        buffers, reference = self._buffers, self._reference
        if reference is None:
            return None
        if not self._device.is_host and reference.on_device(*buffers.downloaded_inputs()) is None:
            words = "the reference does not take arrays of a GPU"
            raise CandidateError(MeasureErrorNo.RUNTIME_DEVICE, "run", words)
        call = reference.timed_call(buffers.inputs, buffers.outputs)
        with np.errstate(all="ignore"):
            call()
            return self._time(call, None, self._device.loop).costs_s

    # -- candidates ------------------------------------------------------------------------

    def load(self, binary: Binary) -> Any:
        """Load a candidate that was compiled for this kind of device.

        CandidateError if it cannot be linked, or the driver refuses it.
        """
        with self._as_candidate_error():
            if isinstance(binary, CallableBinary):
                assert self._callable_of is not None
                return self._callable_of(binary.values)
            if isinstance(binary, PreparedBinary):
                return PreparedCandidate(binary, self._device)
            return self._device.load(binary)

    def call_first(self, loaded: CallableFunction) -> None:
        """Call a Python callable once on the arrays of each check, which may compile it.

        CandidateError as `run`.
        """
        with self._as_candidate_error():
            for each in self._prepared:
                loaded.first_call(*each.buffers.arrays)
                self._device.wait()

    def run(self, loaded: Any, incumbent_s: float | None = None) -> RunResult:
        """Check and time a candidate.

        loaded: what `load` returned.
        incumbent_s: seconds that the fastest candidate so far takes.

        CandidateError if it fails, computes something wrong, or writes where it may not; fatal if
        nothing can be run after it in this process.
        """
        with self._as_candidate_error():
            self._monitor.sample()
            calls, copied = self._bound(loaded), getattr(loaded, "copied", ())
            errors = self._check(calls, copied)
            timed = self._time(calls[-1], incumbent_s, self._loop([loaded]))
            clocks = self._device.clocks()
            last = self._prepared[-1]
            errors.append(last.check(calls[-1], copied) if copied else last.compare_outputs())
        return RunResult(timed.costs_s, largest(errors), timed.raced, self._monitor.noise, clocks)

    def enter(self, loaded: Any) -> float | None:
        """Check a kernel before it is timed in turn with others; return its largest error.

        CandidateError as `run`.
        """
        with self._as_candidate_error():
            return largest(self._check(self._bound(loaded), getattr(loaded, "copied", ())))

    def round(
        self, loaded: Sequence[Any], seconds: float, seed: int, bound: bool = False
    ) -> RunResult:
        """Time kernels that have been entered in turns.

        On a CPU they are called as a program would call them, with its arrays, unless they are to
        be bound to arrays: then checking these is not timed. The check would hide the differences
        of kernels if one of them is shorter, so these are bound, too.

        loaded: what `load` returned of each.
        seconds: how long it may take, about.
        seed: of the order and the places of the arrays.
        bound: whether they are bound to arrays.
        """
        device, arrays = self._device, self._buffers.arrays
        rng = np.random.default_rng(seed)
        with self._as_candidate_error():
            self._monitor.sample()
            if device.is_host:
                arrays, _between = reallocated(arrays, rng)
                calls: list[Call] = [self._bind(each, arrays) for each in loaded]
                for call in calls:
                    call()
                if not bound and min(map(_call_s, calls)) >= CHECK_S:
                    calls = [_call_on(each, arrays) for each in loaded]
                    for call in calls:
                        call()
            else:
                calls = [self._bind(each, arrays) for each in loaded]
            costs_s = time_interleaved(
                dict(enumerate(calls)), seconds, rng, self._loop(loaded), self._flush,
                device.new_kernel,
            )  # fmt: skip
            device.wait()
        in_order = tuple(costs_s[number] for number in range(len(calls)))
        return RunResult(in_order, noise=self._monitor.noise, clocks=device.clocks())

    def _bound(self, loaded: Any) -> list[Call]:
        """Return calls of a candidate, on the arrays of each check."""
        scratch = getattr(loaded, "scratch", ())
        if scratch:
            every = [each.buffers for each in self._prepared]
            return [loaded.bind(*own.arrays, scratch=own.copies(scratch)) for own in every]
        return [self._bind(loaded, each.buffers.arrays) for each in self._prepared]

    def _bind(self, loaded: Any, arrays: Sequence[Any]) -> Call:
        """Return a call on arrays, once the constants among them are prepared."""
        if isinstance(loaded, PreparedCandidate):
            return loaded.bind(arrays)
        if isinstance(loaded, CallableFunction):
            return loaded.bind(*arrays)
        return self._device.bind(loaded, arrays)

    def _check(
        self, calls: Iterable[Call], copied: Sequence[tuple[int, int]]
    ) -> list[float | None]:
        each = zip(self._prepared, calls, strict=True)
        return [prepared.check(call, copied) for prepared, call in each]

    @contextlib.contextmanager
    def _as_candidate_error(self) -> Iterator[None]:
        """Return an error as the candidate's; it is fatal if nothing can run afterwards."""
        try:
            yield
        except CandidateError as error:
            error.fatal = not self._recovered()
            raise
        except (Exception, SystemExit) as error:
            code, stage = MeasureErrorNo.RUNTIME_DEVICE, "run"
            if isinstance(error, CodegenError):
                code, stage = MeasureErrorNo.COMPILE_HOST, "compile"
            words = describe(error)
            raise CandidateError(code, stage, words, fatal=not self._recovered()) from error

    def _recovered(self) -> bool:
        """Restore the arrays; False if the device or the expected results are lost."""
        try:
            if not self._device.usable:
                return False
            for prepared in self._prepared:
                prepared.buffers.restore()
            return all(prepared.intact for prepared in self._prepared)
        except (RuntimeError, MemoryError, AutotuneError):
            return False

    @property
    def _flush(self) -> Call | None:
        return self._device.flush if self.policy.flush == "repeats" else None

    def _loop(self, loaded: Iterable[Any]) -> Loop | None:
        """Return what times calls in a row; None if that is the clock."""
        times_itself = any(getattr(each, "times_itself", False) for each in loaded)
        return own_time_loop if times_itself else self._device.loop

    def _time(self, call: Call, incumbent_s: float | None, loop: Loop | None) -> TimedRepeats:
        device = self._device

        def timed(noisy: bool) -> TimedRepeats:
            # Where all repeats are disturbed, those that a race would save are needed.
            policy = replace(self.policy, race=0.0) if noisy else self.policy
            chosen = loop or (lower_quartile_loop if noisy else None)
            device.new_kernel()
            found = time_kernel(call, policy, incumbent_s, self._flush, loop=chosen)
            device.wait()
            return found

        if device.is_host:
            return retry_if_disturbed(timed, self._monitor, incumbent_s)
        return timed(self._monitor.noisy)


def _call_s(call: Call) -> float:
    """Return about how long a call takes that was made before."""
    return min(timed_loop(call, 2, time.perf_counter_ns) / 2 for _ in range(3))


def _call_on(loaded: Any, arrays: Sequence[Any]) -> Call:
    """Return a call as a program makes it, with its arrays, of a candidate for the CPU.

    A kernel that times itself is bound to them: only then do its calls return its time.
    """
    if getattr(loaded, "times_itself", False):
        return loaded.bind(*arrays)  # type: ignore[no-any-return]
    if isinstance(loaded, PreparedCandidate):
        loaded, arrays = loaded.on(arrays)
    return partial(loaded, *arrays)


def _noise_monitor(device: Device) -> NoiseMonitor:
    """Return the monitor of a device's noise, which times a short kernel."""
    call, _ = device.multiply_adds("float32")
    loop = device.loop
    if loop is None:
        return NoiseMonitor(call)

    def timed() -> float:
        device.new_kernel()
        return loop(call, 1)

    return NoiseMonitor(timed, timed=timed)


def largest(errors: Iterable[float | None]) -> float | None:
    """Return the largest of some errors; None if none is known."""
    return max((error for error in errors if error is not None), default=None)
