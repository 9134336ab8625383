"""One workload inside a runner that owns a GPU: checks and times its candidates there.

Inputs, right answers and checks stay on the device from one candidate to the next.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from autotune.errors import AutotuneError, UsageError, error_text
from autotune.measure.candidate import CandidateError, Code, WorkloadDescription, describe
from autotune.measure.checks.check_cases import AnswerCheck, Given
from autotune.measure.checks.prepare_checks import prepare
from autotune.measure.devices.cpu.cpu_bench import (
    RoundTimes,
    RunResult,
    largest,
    reference_call,
    wrong_answer_message,
)
from autotune.measure.devices.cuda.cuda_roofline import Device, measure_ceiling, reference_kernel
from autotune.measure.devices.cuda.device_buffers import DeviceBuffers, Host, stored_as
from autotune.measure.devices.cuda.device_comparison import DeviceOutputCheck
from autotune.measure.interleaved_timing import time_interleaved
from autotune.measure.noise_monitor import NoiseMonitor
from autotune.measure.result import MeasureErrorNo
from autotune.measure.roofline import Ceiling
from autotune.measure.timing import TimedRepeats, time_kernel
from autotune.measure.timing_policy import TimingPolicy
from autotune.runtime.cpu.compiled_kernel import Kernel
from autotune.runtime.cuda.gpu_program import GpuProgram
from autotune.runtime.cuda.loaded_program import LoadedProgram
from autotune.runtime.cuda.nvml import clock_reader
from autotune.target import Target

_log = logging.getLogger(__name__)

_OF_CUBLAS = frozenset({"float16", "float32", "float64"})


class _PreparedCheck:
    """A check, with the arrays on the GPU to run candidates on.

    Attributes
    ----------
    buffers : DeviceBuffers
    """

    def __init__(self, device: Device, subject: WorkloadDescription, check: AnswerCheck) -> None:
        self._check_name = check.what
        self._stopwatch = device.stopwatch
        self.buffers = DeviceBuffers(device.xp, subject.signature.parameters)
        self.buffers.fill(lambda number, _: check.inputs[number])
        self._checks = [
            DeviceOutputCheck(
                device.xp,
                device.xp.asarray(right.view(stored_as(held.dtype))),
                held.dtype,
                allowed.errors,
            )
            for held, right, allowed in zip(
                self.buffers.outputs, check.expected, check.allowed, strict=False
            )
        ]

    @property
    def intact(self) -> bool:
        """Whether what is kept to compare with is as it was."""
        return self.buffers.intact and all(check.is_intact for check in self._checks)

    def warm_up(self) -> None:
        """Do all that checks may take."""
        for held, check in zip(self.buffers.outputs, self._checks, strict=False):
            check.poison(held.array)
            check.check(held.array)
        self.buffers.find_damage()
        self.buffers.restore()

    def check(self, call: Callable[[], object]) -> float | None:
        """Run once, on poisoned outputs if their right values are known; return the error."""
        for held, check in zip(self.buffers.outputs, self._checks, strict=False):
            check.poison(held.array)
        self._stopwatch.wait()
        call()
        self._stopwatch.wait()
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
        for held, check in zip(self.buffers.outputs, self._checks, strict=False):
            verdict = check.check(held.array)
            if verdict.wrong:
                values = check.values_at(held.array, verdict.first or ())
                size = int(held.array.size)
                words = wrong_answer_message(self._check_name, held.name, size, verdict, *values)
                code = MeasureErrorNo.WRONG_ANSWER
                raise CandidateError(code, "check", words, verdict.max_error)
            worst = max(worst or 0.0, verdict.max_error)
        return worst


class GpuRunBench:
    """Runs candidates of one workload on the GPU that this process owns.

    Parameters
    ----------
    subject : WorkloadDescription
        What is known of the workload.
    reference : callable or None
        Function of the input arrays that returns the right answer: CuPy's arrays, or NumPy's.
    unscheduled : Kernel or None
        The program without a schedule, for the CPU; computes the right answers if there is no
        reference.
    policy : TimingPolicy
    seed : int
        Seed of the inputs.
    given : callable, optional
        Draws realistic inputs, if the template does so itself.
    device : Device, optional
        By default the one that the target names, which is taken now.

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
        If the template's reference fails or does not fit its outputs, the device cannot be used,
        or has too little memory.
    """

    def __init__(
        self,
        subject: WorkloadDescription,
        reference: Callable[..., Any] | None,
        unscheduled: Kernel | None,
        policy: TimingPolicy,
        seed: int,
        given: Given | None = None,
        device: Device | None = None,
    ) -> None:
        self.policy = policy
        self._reference = reference
        self._only_on_cpu = False
        self._subject = subject
        self._device = device or Device.take(Target.of(subject.target))
        self._xp = self._device.xp
        timed = reference_kernel(self._device)
        self._monitor = NoiseMonitor(timed, timed=timed)
        bus = self._xp.cuda.Device(self._device.number).pci_bus_id
        self._clocks, problem = clock_reader(bus)
        self.notes = [problem] if problem else []
        try:
            asked = None if reference is None else self._asked
            prepared = prepare(subject, asked, unscheduled, given, seed)
            self.reference, self.checks = prepared.reference, prepared.words
            self._prepared = [
                _PreparedCheck(self._device, subject, check) for check in prepared.checks
            ]
            self._buffers = self._prepared[-1].buffers
            self._warm_up()
            self._device.stopwatch.wait()
        except MemoryError as error:  # CuPy's is of this type
            raise UsageError(self._too_large(error)) from error

    def _too_large(self, error: MemoryError) -> str:
        parameters = self._subject.signature.parameters
        sizes = [stored_as(p.dtype).itemsize * float(np.prod(p.fixed or ())) for p in parameters]
        facts = self._device.facts
        return (
            f"cuda:{self._device.number} ({facts['name']}) has too little memory: the arrays of "
            f"{self._subject.signature.name} take {sum(sizes) / 2**30:.3g} GiB, some six "
            f"times that with what they are checked with, of {facts['memory_bytes'] / 2**30:.3g} "
            f"GiB: {' '.join(error_text(error).split())}"
        )

    # -- the reference ---------------------------------------------------------------------

    def _on_device(self, *inputs: Host) -> list[Host] | None:
        """Return what the reference makes of CuPy's arrays; None if it is for NumPy's alone."""
        assert self._reference is not None
        xp = self._xp
        if self._only_on_cpu or any(stored_as(a.dtype.name) != a.dtype for a in inputs):
            return None
        try:
            returned = self._reference(*map(xp.asarray, inputs))
            found = list(returned) if isinstance(returned, list | tuple) else [returned]
            if all(isinstance(array, xp.ndarray) for array in found):
                return [array.get() for array in found]
        except Exception as error:  # whatever NumPy has and CuPy has not; too large for the device
            _log.info("the reference runs on the CPU: %s", describe(error))
        self._only_on_cpu = True
        return None

    def _asked(self, *inputs: Host) -> Any:
        """Return the right answers of the reference, computed on the GPU if that is possible."""
        assert self._reference is not None
        found = self._on_device(*inputs)
        return self._reference(*inputs) if found is None else found

    def _warm_up(self) -> None:
        """Do all that checks may take: CuPy compiles it now, not in a candidate's time."""
        for prepared in self._prepared:
            prepared.warm_up()

    # -- the machine -----------------------------------------------------------------------

    def ceiling(self) -> Ceiling:
        """Measure what the GPU can do at best for work of this kind and size."""
        kinds = sorted({parameter.dtype for parameter in self._subject.signature.parameters})
        touched = float(self._buffers.nbytes) if self.policy.flush == "off" else None
        return measure_ceiling(self._device, kinds, touched, self._library())

    def _library(self) -> Callable[[], None] | None:
        """Return a launch of cuBLAS's kernel where the reference says that it has one."""
        buffers = self._buffers
        types = {held.dtype for held in buffers.all}
        if self._reference is not np.matmul or len(types) > 1 or not types <= _OF_CUBLAS:
            return None
        a, b = (held.array for held in buffers.inputs)
        product = self._xp.empty_like(buffers.outputs[0].array)

        def call() -> None:
            self._xp.matmul(a, b, out=product)

        try:
            call()
            self._device.stopwatch.wait()
        except Exception as error:
            self.notes.append(f"cuBLAS is not measured: {describe(error)}")
            return None
        return call

    def baseline(self) -> tuple[float, ...] | None:
        """Time the reference itself on CuPy's arrays, as candidates are timed; None without one.

        Functions of NumPy, whose work CuPy then does, write into the outputs; what others return
        counts when it lies in memory like an output.

        Returns
        -------
        tuple of float
            Seconds per call, one number per repeat.

        Raises
        ------
        CandidateError
            If it is for NumPy's arrays alone.
        """
        if self._reference is None:
            return None
        inputs = [held.array for held in self._buffers.inputs]
        outputs = [held.array for held in self._buffers.outputs]
        if self._on_device(*(held.download() for held in self._buffers.inputs)) is None:
            words = "the reference does not take arrays of a GPU"
            raise CandidateError(MeasureErrorNo.RUNTIME_DEVICE, "run", words)
        call = reference_call(self._reference, inputs, outputs, self._xp.ascontiguousarray)
        call()
        return self._time(call, None).costs_s

    # -- candidates ------------------------------------------------------------------------

    def run(self, program: Code, incumbent_s: float | None = None) -> RunResult:
        """Check and time a candidate.

        Parameters
        ----------
        program : GpuProgram
        incumbent_s : float, optional
            Seconds that the fastest candidate so far takes.

        Raises
        ------
        CandidateError
            If it fails, computes something wrong, or writes where it may not; fatal if nothing can
            be run after it in this process.
        """
        with self._as_candidate_error():
            self._monitor.sample()
            calls = self._bound(program)
            errors = [
                prepared.check(call) for prepared, call in zip(self._prepared, calls, strict=True)
            ]
            timed = self._time(calls[-1], incumbent_s)
            clocks = self._clocks()
            errors.append(self._prepared[-1].compare_outputs())
        return RunResult(timed.costs_s, largest(errors), timed.raced, self._monitor.noise, clocks)

    def enter(self, program: Code) -> float | None:
        """Check a kernel that is to be timed beside others; return its largest error.

        Raises
        ------
        CandidateError
            As `run`.
        """
        with self._as_candidate_error():
            calls = zip(self._prepared, self._bound(program), strict=True)
            return largest([prepared.check(call) for prepared, call in calls])

    def round(self, programs: Mapping[int, Code], seconds: float, seed: int) -> RoundTimes:
        """Time kernels that have been entered in turns, as `RunBench.round` does.

        Parameters
        ----------
        programs : mapping of int to GpuProgram
        seconds : float
            How long it may take, about.
        seed : int
            Of the order.
        """
        stopwatch = self._device.stopwatch
        flush = stopwatch.flush if self.policy.flush == "repeats" else None
        rng = np.random.default_rng(seed)
        with self._as_candidate_error():
            self._monitor.sample()
            calls = {number: self._bound(program)[-1] for number, program in programs.items()}
            costs_s = time_interleaved(
                calls, seconds, rng, stopwatch.seconds, flush, stopwatch.new_kernel
            )
            stopwatch.wait()
        return RoundTimes(costs_s, self._monitor.noise, self._clocks())

    def _bound(self, program: Code) -> list[Callable[[], object]]:
        """Return calls of a program, on the arrays of each check."""
        assert isinstance(program, GpuProgram)
        loaded = LoadedProgram(program, self._device.number)
        stream = int(self._device.stream.ptr)
        return [loaded.bind(prepared.buffers.addresses, stream) for prepared in self._prepared]

    @contextlib.contextmanager
    def _as_candidate_error(self) -> Iterator[None]:
        """Make an error that of the candidate; fatal if nothing can be run after it."""
        try:
            yield
        except CandidateError as error:
            error.fatal = not self._recovered()
            raise
        except (Exception, SystemExit) as error:
            words = describe(error)
            fatal = not self._recovered()
            code = MeasureErrorNo.RUNTIME_DEVICE
            raise CandidateError(code, "run", words, fatal=fatal) from error

    def _recovered(self) -> bool:
        """Make the arrays what they were; False if the device is lost, or what is compared with."""
        try:
            if not self._device.usable:
                return False
            for prepared in self._prepared:
                prepared.buffers.restore()
            return all(prepared.intact for prepared in self._prepared)
        except (RuntimeError, MemoryError, AutotuneError):
            return False

    def _time(self, call: Callable[[], object], incumbent_s: float | None) -> TimedRepeats:
        stopwatch = self._device.stopwatch
        flush = stopwatch.flush if self.policy.flush == "repeats" else None
        # Where all repeats are disturbed, those that a race would save are needed.
        policy = replace(self.policy, race=0.0) if self._monitor.noisy else self.policy
        stopwatch.new_kernel()
        timed = time_kernel(call, policy, incumbent_s, flush, loop=stopwatch.seconds)
        stopwatch.wait()
        return timed
