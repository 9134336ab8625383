"""What a runner does on a GPU, in this process: arrays of the fake CuPy, kernels in Python."""

from itertools import groupby
from types import SimpleNamespace

import numpy as np
import pytest
from support.cuda_compiler import needs_nvrtc
from support.fake_gpu import cupy as fake_cupy
from support.random_values import draw

from autotune.ir import dtypes
from autotune.measure import run_bench as bench_module
from autotune.measure.candidate import CandidateError, WorkloadDescription
from autotune.measure.checks.compare_outputs import OutputCheck
from autotune.measure.checks.guard_zones import Buffers
from autotune.measure.checks.program_reference import UnscheduledPrograms
from autotune.measure.roofline import Ceiling, measure_ceiling
from autotune.measure.run_bench import RunBench
from autotune.measure.timing_policy import TimingPolicy
from autotune.runtime.cpu.cpu_device import CpuDevice
from autotune.runtime.cuda.device import cuda_device, throughput_kernels
from autotune.runtime.cuda.device.cuda_device import CudaDevice, Stopwatch
from autotune.runtime.signature import ArrayParameter, Signature
from autotune.target import Target

FLOATS = ("float16", "bfloat16", "float32", "float64")
QUICK = TimingPolicy(repeats=2, min_repeat_ms=0)
CPU = CpuDevice(Target("llvm"))


@pytest.fixture
def gpu(pretend_cupy):
    """The fake GPU as a device."""
    pretend_cupy(fake_cupy)
    yield CudaDevice(Target("cuda"))
    fake_cupy.cuda.machine.error = None


def on_gpu(gpu, values):
    return fake_cupy.asarray(values.view(gpu.stored_as(values.dtype.name)))


# -- accuracy ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*FLOATS, "int8", "uint64", "int64", "bool"])
def test_the_device_judges_as_the_cpu_does(dtype, gpu):
    gpu.chunk = 100
    rng = np.random.default_rng(3)
    expected = draw((7, 51), dtype, rng)
    allowed = 0.0
    if dtypes.is_float(dtype):
        expected[2, 5:9] = [np.nan, np.inf, -np.inf, 0]
        allowed = rng.random(expected.shape, np.float32)
    own = OutputCheck(CPU, expected, allowed)
    other = OutputCheck(gpu, expected, allowed)
    for changed in range(4):
        actual = expected.copy()
        places = rng.choice(actual.size, changed, replace=False)
        actual.reshape(-1)[places] = draw((changed,), dtype, rng)
        if changed == 3 and dtypes.is_float(dtype):
            actual[6, 50], actual[2, 5] = np.nan, 1.0
        verdict, judged = own.check(actual), other.check(on_gpu(gpu, actual))
        assert (judged.wrong, judged.first) == (verdict.wrong, verdict.first)
        assert judged.allowed == pytest.approx(verdict.allowed)
        assert judged.max_error == pytest.approx(verdict.max_error, nan_ok=True)


@pytest.mark.parametrize("dtype", [*FLOATS, "int8", "uint64", "bool"])
def test_poison_is_wrong_in_every_element(dtype, gpu):
    expected = draw((40,), dtype, np.random.default_rng(1))
    if dtypes.is_float(dtype):
        expected[7] = np.nan
    comparison = OutputCheck(gpu, expected)
    output = on_gpu(gpu, expected)
    comparison.poison(output)
    assert comparison.check(output).wrong == 40
    by_cpu = expected.copy()
    OutputCheck(CPU, expected).poison(by_cpu)
    found = gpu.download(output).view(expected.dtype)
    np.testing.assert_array_equal(found.astype("f8"), by_cpu.astype("f8"))


def test_the_first_wrong_element_is_told_with_its_values(gpu):
    expected = np.arange(12, dtype="float32").reshape(3, 4)
    comparison = OutputCheck(gpu, expected)
    actual = expected.copy()
    actual[1, 2] = -6
    verdict = comparison.check(on_gpu(gpu, actual))
    assert comparison.values_at(on_gpu(gpu, actual), verdict.first) == (-6.0, 6.0)


# -- timing --------------------------------------------------------------------------------------


class Clock:
    """A stream whose time passes as calls say, and which notes what it was given."""

    def __init__(self, call_s: float, monkeypatch, launch_s: float = 1e-5) -> None:
        self.call_s, self.done, self.launch_s, self.host_s = call_s, [], launch_s, 0.0
        self.watch = Stopwatch(fake_cupy, fake_cupy.cuda.Stream(), 1 << 16)
        self.fill_s, self.watch._fill_s = 4e-5, 4e-5
        self.watch.flush = self.flush
        monkeypatch.setattr(cuda_device.time, "perf_counter", lambda: self.host_s)

    def flush(self) -> None:
        self.done.append("flush")
        fake_cupy.cuda.machine.spend(self.fill_s)

    def call(self) -> None:
        self.done.append("call")
        self.host_s += self.launch_s
        fake_cupy.cuda.machine.spend(self.call_s)

    def groups(self) -> list[tuple[int, int]]:
        """Flushes and calls of each group."""
        runs = [(what, len(list(same))) for what, same in groupby(self.done)]
        return [(a, b) for (_, a), (_, b) in zip(runs[::2], runs[1::2], strict=True)]


def test_a_loop_is_timed_by_the_device_alone(monkeypatch):
    clock = Clock(2e-6, monkeypatch)
    assert clock.watch.seconds(clock.call, 3) == pytest.approx(6e-6)
    assert clock.groups() == [(1, 3)]


def test_short_kernels_are_queued_up_in_groups_behind_other_work(monkeypatch):
    clock = Clock(2e-6, monkeypatch)
    clock.watch.seconds(clock.call, 1)
    clock.done.clear()
    assert clock.watch.seconds(clock.call, 1000) == pytest.approx(1000 * 2e-6)
    groups = clock.groups()
    assert sum(calls for _, calls in groups) == 1000
    for flushes, calls in groups:
        assert calls <= cuda_device.QUEUED
        busy_s, launching_s = flushes * clock.fill_s, calls * clock.launch_s
        assert launching_s - calls * clock.call_s <= busy_s <= 2 * cuda_device.AHEAD_S


def test_long_kernels_are_given_all_at_once_behind_one_flush(monkeypatch):
    clock = Clock(1e-3, monkeypatch)
    clock.watch.seconds(clock.call, 1)
    clock.done.clear()
    clock.watch.seconds(clock.call, 8)
    assert clock.groups() == [(1, 8)]


def test_launching_that_was_disturbed_does_not_count(monkeypatch):
    clock = Clock(2e-6, monkeypatch, launch_s=1.0)
    clock.watch.seconds(clock.call, 1)
    clock.done.clear()
    clock.watch.seconds(clock.call, 100)
    assert sum(flushes for flushes, _ in clock.groups()) < 200


# -- a workload ----------------------------------------------------------------------------------


@pytest.fixture
def bench_of(monkeypatch, gpu):
    """Return a function that makes a bench whose candidates are functions of the arrays."""
    monkeypatch.setattr(
        throughput_kernels.ThroughputKernels,
        "multiply_adds",
        lambda self, dtype: (lambda: None, 1.0),
    )

    def bind(self, work, arrays):
        def call() -> None:
            fake_cupy.cuda.machine.check()
            work(*arrays)
            fake_cupy.cuda.machine.spend(1e-5)

        return call

    monkeypatch.setattr(CudaDevice, "bind", bind)

    def make(subject, reference=None, unscheduled=None, policy=QUICK):
        device = CudaDevice(Target("cuda"))
        return RunBench(device, subject, reference, unscheduled, policy, seed=5)

    return make


def subject(dtype="float32", shape=(6, 5), **more):
    """B = function of A, of one type and shape."""
    parameters = [
        ArrayParameter(n, dtype, shape, is_output) for n, is_output in (("A", 0), ("B", 1))
    ]
    return WorkloadDescription(Signature("work", tuple(parameters)), target="cuda", **more)


def doubled(a, b):
    b[...] = a + a


def test_a_candidate_is_checked_and_timed(bench_of):
    bench = bench_of(subject(), lambda a: a * 2)
    ran = bench.run(doubled)
    assert bench.reference == "given"
    assert ran.max_error == 0.0
    assert ran.costs_s == pytest.approx((1e-5, 1e-5))


def test_a_reference_for_numpy_alone_runs_on_the_cpu(bench_of):
    seen = []

    def reference(a):
        seen.append(type(a))
        if type(a) is not np.ndarray:
            raise TypeError("Implicit conversion to a NumPy array is not allowed.")
        return a * 2

    bench = bench_of(subject(), reference)
    assert seen[:2] == [fake_cupy.ndarray, np.ndarray]
    assert fake_cupy.ndarray not in seen[2:]  # but subclasses of NumPy's
    assert bench.run(doubled).max_error == 0.0
    with pytest.raises(CandidateError, match="does not take arrays of a GPU"):
        bench.baseline()


def test_what_checks_take_is_compiled_before_a_candidates_time_begins(bench_of, monkeypatch):
    closely, seen = OutputCheck._closely, []
    monkeypatch.setattr(
        OutputCheck, "_closely", lambda *given: (seen.append(1), closely(*given))[1]
    )
    bench = bench_of(subject(), np.negative)
    assert seen
    assert bench._buffers.find_damage() is None


def test_a_reference_that_takes_arrays_of_a_gpu_is_timed_there(bench_of):
    bench = bench_of(subject(), np.negative)
    costs = bench.baseline()
    assert len(costs) == 2
    assert bench.reference == "given"


def test_bfloat16_is_checked_by_its_bits(bench_of):
    def work(a, b):
        b[...] = a ^ np.uint16(0x8000)

    bench = bench_of(subject("bfloat16"), lambda a: -a)
    assert bench.run(work).max_error == 0.0
    with pytest.raises(CandidateError, match="30 of 30 elements of B are wrong"):
        bench.run(lambda a, b: b.__setitem__(..., a))


def test_inputs_are_positive_where_the_answer_would_not_be_finite(bench_of):
    bench = bench_of(subject(), np.sqrt)
    (a,) = bench._buffers.downloaded_inputs()
    assert (a > 0).all()


def test_without_a_reference_the_program_without_a_schedule_says_what_is_right(bench_of):
    def unscheduled(a, b):
        np.add(a, a, out=b)

    bench = bench_of(subject(), None, UnscheduledPrograms(unscheduled))
    assert bench.reference == "unscheduled"
    assert bench.run(doubled).max_error == 0.0


def test_an_error_that_the_device_does_not_recover_from_is_fatal(bench_of):
    def lost(a, b):
        fake_cupy.cuda.machine.error = "cudaErrorIllegalAddress: an illegal memory access"

    bench = bench_of(subject(), lambda a: a * 2)
    with pytest.raises(CandidateError, match="IllegalAddress") as caught:
        bench.run(lost)
    assert caught.value.fatal


@pytest.mark.parametrize(("what", "fatal"), [("output", False), ("kept", True)])
def test_a_wild_write_into_what_is_compared_with_costs_the_process(bench_of, what, fatal):
    bench = bench_of(subject(), lambda a: a * 2)

    def wild(a, b):
        doubled(a, b)
        target = b if what == "output" else bench._prepared[0]._checks[0]._expected.array
        target[3, 2] = 9

    with pytest.raises(CandidateError, match="1 of 30 elements of B are wrong") as caught:
        bench.run(wild)
    assert caught.value.fatal is fatal
    if not fatal:
        assert bench.run(doubled).max_error == 0.0


def test_what_a_candidate_did_to_its_inputs_and_zones_is_mended(bench_of):
    bench = bench_of(subject(), lambda a: a * 2)

    def meddling(a, b):
        doubled(a, b)
        a[1, 1] = 7

    with pytest.raises(CandidateError, match=r"it changed its input A, first at \[1, 1\]: 7.0"):
        bench.run(meddling)
    assert bench.run(doubled).max_error == 0.0


def test_zones_before_and_after_arrays_are_watched(gpu):
    buffers = Buffers(gpu, subject().signature.parameters)
    buffers.fill([np.ones((6, 5), "float32")])
    assert buffers.find_damage() is None
    buffers._guarded[1]._before[-3] += 1
    assert buffers.find_damage() == "it wrote outside B: 3 bytes before its start"
    buffers.restore()
    buffers._guarded[0]._after[0] += 1
    assert buffers.find_damage() == "it wrote outside A: 0 bytes past its end"


# -- the machine ---------------------------------------------------------------------------------


def test_cublas_is_timed_where_the_reference_says_that_it_has_the_work(bench_of, monkeypatch):
    shapes = {"A": (8, 6), "B": (6, 4), "C": (8, 4)}
    parameters = tuple(ArrayParameter(n, "float32", s, n == "C") for n, s in shapes.items())
    bench = bench_of(WorkloadDescription(Signature("matmul", parameters), target="cuda"), np.matmul)
    monkeypatch.setattr(
        bench_module,
        "measure_ceiling",
        lambda device, kinds, touched, library: Ceiling({}, 1.0, library and 1.0),
    )
    assert bench.ceiling().library_s == 1.0
    assert bench_of(subject(), np.negative).ceiling().library_s is None
    monkeypatch.setenv("FAKE_GPU_CUBLAS", "missing")
    assert bench.ceiling().library_s is None
    assert bench.notes[-1].startswith("cuBLAS is not measured: ImportError: libcublas.so.12")


@needs_nvrtc
def test_what_a_gpu_can_do_is_measured_by_kernels_of_ours(gpu, monkeypatch):
    launched = []
    monkeypatch.setattr(
        throughput_kernels.cupy_driver, "LoadedKernel",
        lambda cubin, name, number: SimpleNamespace(
            bound=lambda sizes, stream, values: lambda: (
                launched.append((name, sizes.grid[0], sizes.block[0])),
                fake_cupy.cuda.machine.spend(1e-4),
            )
        ),
    )  # fmt: skip
    ceiling = measure_ceiling(gpu, ["float16", "int8"], 1 << 20, seconds=0)
    assert {name for name, _, _ in launched} == {"multiply_adds", "copy"}
    blocks = 8 * gpu.facts["multiprocessors"]
    operations = 2 * blocks * 256 * throughput_kernels.CHAINS * (1 << 14)
    assert ceiling.peak_flops == {"float16": pytest.approx(operations / 1e-4)}
    by_driver_s = 1e-6 + (1 << 20) / 2e12
    assert ceiling.copy_bytes_s == pytest.approx((1 << 20) / by_driver_s)
