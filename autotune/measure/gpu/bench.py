"""One workload inside a runner that owns a GPU: checks and times its candidates there.

Inputs, right answers and checks stay on the device from one candidate to the next.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from autotune.errors import AutotuneError, UsageError, told
from autotune.ir import dtypes
from autotune.measure.accuracy import Verdict, draw
from autotune.measure.candidate import CandidateError, Code, Subject, describe
from autotune.measure.ceiling import Ceiling
from autotune.measure.gpu.accuracy import DeviceComparison
from autotune.measure.gpu.buffers import (
    DeviceArray,
    DeviceBuffers,
    GpuArray,
    Host,
    stored_as,
    widened,
)
from autotune.measure.gpu.machine import Device, measure_ceiling, reference_kernel
from autotune.measure.noise import NoiseMonitor
from autotune.measure.policy import TimingPolicy
from autotune.measure.reference import expected_outputs
from autotune.measure.result import MeasureErrorNo
from autotune.measure.run_bench import Ran, reference_call, wrong_words
from autotune.measure.timing import Timed, time_kernel
from autotune.runtime.gpu_load import LoadedProgram
from autotune.runtime.gpu_program import GpuProgram
from autotune.runtime.kernel import Kernel
from autotune.runtime.nvml import clock_reader
from autotune.target import Target

_log = logging.getLogger(__name__)

_OF_CUBLAS = frozenset({"float16", "float32", "float64"})


class GpuRunBench:
    """Runs candidates of one workload on the GPU that this process owns.

    Parameters
    ----------
    subject : Subject
        What is known of the workload.
    reference : callable or None
        Function of the input arrays that returns the right answer: CuPy's arrays, or NumPy's.
    unscheduled : Kernel or None
        The program without a schedule, for the CPU; says what is right if there is no reference.
    policy : TimingPolicy
    seed : int
        Seed of the inputs.
    device : Device, optional
        By default the one that the target names, which is taken now.

    Attributes
    ----------
    reference : str
        What answers are checked with: "given" by the template, "unscheduled" program, or "none".
    notes : list of str
        What could not be had here, a line each.

    Raises
    ------
    UsageError
        If the template's reference fails or does not fit its outputs, the device cannot be used,
        or has too little memory.
    """

    def __init__(
        self,
        subject: Subject,
        reference: Callable[..., Any] | None,
        unscheduled: Kernel | None,
        policy: TimingPolicy,
        seed: int,
        device: Device | None = None,
    ) -> None:
        self.policy = policy
        self._reference = reference
        self._seed = seed
        self._subject = subject
        self._device = device or Device.take(Target.of(subject.target))
        self._xp = self._device.xp
        timed = reference_kernel(self._device)
        self._monitor = NoiseMonitor(timed, timed=timed)
        bus = self._xp.cuda.Device(self._device.number).pci_bus_id
        self._clocks, problem = clock_reader(bus)
        self.notes = [problem] if problem else []
        try:
            self._buffers = DeviceBuffers(self._xp, subject.signature.parameters)
            self._draw(signed=True)
            self.reference, expected = self._expected(reference, unscheduled)
            self._checks = [
                DeviceComparison(
                    self._xp, right, held.dtype, subject.reduction_length, subject.accumulator
                )
                for right, held in zip(expected, self._buffers.outputs, strict=False)
            ]
            self._rehearse()
            self._device.stopwatch.wait()
        except MemoryError as error:  # CuPy's is of this type
            raise UsageError(self._too_large(error)) from error

    def _too_large(self, error: MemoryError) -> str:
        parameters = self._subject.signature.parameters
        sizes = [stored_as(p.dtype).itemsize * float(np.prod(p.fixed or ())) for p in parameters]
        facts = self._device.facts
        return (
            f"cuda:{self._device.number} ({facts['name']}) has too little memory: the arrays of "
            f"{self._subject.signature.name} take {sum(sizes) / 2**30:.3g} GiB, twice or three "
            f"times that with what they are checked with, of {facts['memory_bytes'] / 2**30:.3g} "
            f"GiB: {' '.join(told(error).split())}"
        )

    # -- what is right ---------------------------------------------------------------------

    def _draw(self, signed: bool) -> None:
        """Fill the inputs; the same seed gives the same values as on a CPU."""

        def values(number: int, held: DeviceArray) -> Host:
            rng = np.random.default_rng([self._seed, number])
            return draw(held.array.shape, held.dtype, rng, signed)

        self._buffers.fill(values)

    def _expected(
        self, reference: Callable[..., Any] | None, unscheduled: Kernel | None
    ) -> tuple[str, list[GpuArray]]:
        """Right answers; inputs become positive where other signs have no finite answer."""
        how, found = self._answers(reference, unscheduled)
        if found and not self._finite(found):
            self._draw(signed=False)
            how, found = self._answers(reference, unscheduled)
        return how, found

    def _answers(
        self, reference: Callable[..., Any] | None, unscheduled: Kernel | None
    ) -> tuple[str, list[GpuArray]]:
        if reference is not None:
            return "given", self._on_device(reference) or self._on_cpu(reference)
        if unscheduled is None:
            return "none", []
        outputs = [
            np.empty(held.array.shape, dtypes.numpy_dtype(held.dtype))
            for held in self._buffers.outputs
        ]
        unscheduled(*(held.download() for held in self._buffers.inputs), *outputs)
        return "unscheduled", [self._uploaded(output) for output in outputs]

    def _on_device(self, reference: Callable[..., Any]) -> list[GpuArray] | None:
        """Return what the reference makes of CuPy's arrays; None if it is for NumPy's alone."""
        xp, outputs = self._xp, self._buffers.outputs
        types = {held.dtype for held in self._buffers.all}
        if any(stored_as(dtype) != dtypes.numpy_dtype(dtype) for dtype in types):
            return None
        try:
            returned = reference(*(held.array.copy() for held in self._buffers.inputs))
            found = list(returned) if isinstance(returned, list | tuple) else [returned]
            fits = len(found) == len(outputs) and all(
                isinstance(got, xp.ndarray) and got.shape == held.array.shape
                for got, held in zip(found, outputs, strict=False)
            )
            if not fits:
                return None
            return [
                xp.ascontiguousarray(got.astype(held.array.dtype))
                for got, held in zip(found, outputs, strict=True)
            ]
        except MemoryError:
            raise
        except Exception as error:  # whatever NumPy has and CuPy has not
            _log.info("the reference runs on the CPU: %s", describe(error))
            return None

    def _on_cpu(self, reference: Callable[..., Any]) -> list[GpuArray]:
        """Return what the reference makes of NumPy's arrays."""
        like = [
            np.broadcast_to(np.zeros((), dtypes.numpy_dtype(held.dtype)), held.array.shape)
            for held in self._buffers.outputs
        ]
        inputs = [held.download() for held in self._buffers.inputs]
        found = expected_outputs(reference, inputs, like, self._subject.signature.name)
        return [self._uploaded(array) for array in found]

    def _uploaded(self, array: Host) -> GpuArray:
        return self._xp.asarray(array.view(stored_as(array.dtype.name)))

    def _finite(self, found: Sequence[GpuArray]) -> bool:
        pairs = zip(found, self._buffers.outputs, strict=True)
        return all(
            bool(self._xp.isfinite(widened(self._xp, array, held.dtype)).all())
            for array, held in pairs
            if dtypes.is_float(held.dtype)
        )

    def _rehearse(self) -> None:
        """Do all that checks may take: CuPy compiles it now, not in a candidate's time."""
        for held, check in zip(self._buffers.outputs, self._checks, strict=False):
            check.poison(held.array)
            check.check(held.array)
        self._buffers.damage()
        self._buffers.restore()

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
        if self._on_device(self._reference) is None:
            words = "the reference does not take arrays of a GPU"
            raise CandidateError(MeasureErrorNo.RUNTIME_DEVICE, "run", words)
        inputs = [held.array for held in self._buffers.inputs]
        outputs = [held.array for held in self._buffers.outputs]
        call = reference_call(self._reference, inputs, outputs, self._xp.ascontiguousarray)
        call()
        return self._time(call, None).costs_s

    # -- candidates ------------------------------------------------------------------------

    def run(self, program: Code, incumbent_s: float | None = None) -> Ran:
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
        assert isinstance(program, GpuProgram)
        try:
            self._monitor.look()
            loaded = LoadedProgram(program, self._device.number)
            call = loaded.bind(self._buffers.addresses, int(self._device.stream.ptr))
            max_error = self._check(call)
            timed = self._time(call, incumbent_s)
            clocks = self._clocks()
            max_error = self._judge(max_error)
        except CandidateError as error:
            error.fatal = not self._recovered()
            raise
        except (Exception, SystemExit) as error:
            words = describe(error)
            fatal = not self._recovered()
            code = MeasureErrorNo.RUNTIME_DEVICE
            raise CandidateError(code, "run", words, fatal=fatal) from error
        return Ran(timed.costs_s, max_error, timed.raced, self._monitor.noise, clocks)

    def _recovered(self) -> bool:
        """Make the arrays what they were; False if the device is lost, or what is compared with."""
        try:
            if not self._device.usable:
                return False
            self._buffers.restore()
            return self._buffers.intact and all(check.intact for check in self._checks)
        except (RuntimeError, MemoryError, AutotuneError):
            return False

    def _check(self, call: Callable[[], object]) -> float | None:
        """Run once, on poisoned outputs if their right values are known."""
        for held, check in zip(self._buffers.outputs, self._checks, strict=False):
            check.poison(held.array)
        self._device.stopwatch.wait()
        call()
        self._device.stopwatch.wait()
        return self._judge()

    def _time(self, call: Callable[[], object], incumbent_s: float | None) -> Timed:
        stopwatch = self._device.stopwatch
        flush = stopwatch.flush if self.policy.flush == "repeats" else None
        # Where all repeats are disturbed, those that a race would save are needed.
        policy = replace(self.policy, race=0.0) if self._monitor.noisy else self.policy
        stopwatch.new_kernel()
        timed = time_kernel(call, policy, incumbent_s, flush, loop=stopwatch.seconds)
        stopwatch.wait()
        return timed

    def _judge(self, so_far: float | None = None) -> float | None:
        """Largest error of the outputs as they are now, None if unchecked.

        CandidateError if one is wrong, or something was written to that is no output.
        """
        damage = self._buffers.damage()
        if damage is not None:
            raise CandidateError(MeasureErrorNo.WRONG_ANSWER, "check", damage)
        worst = so_far
        for held, check in zip(self._buffers.outputs, self._checks, strict=False):
            verdict = check.check(held.array)
            if verdict.wrong:
                words = self._wrong(held, check, verdict)
                code = MeasureErrorNo.WRONG_ANSWER
                raise CandidateError(code, "check", words, verdict.max_error)
            worst = max(worst or 0.0, verdict.max_error)
        return worst

    def _wrong(self, held: DeviceArray, check: DeviceComparison, verdict: Verdict) -> str:
        values = check.values_at(held.array, verdict.first or ())
        return wrong_words(held.name, int(held.array.size), verdict, *values)
