"""Functions built for GPUs: compiled without one, launched on arrays of one (a fake one here)."""

import pickle
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from support.cuda_compiler import needs_nvrtc
from support.fake_cuda import OnGpu, passed
from support.gpu_cases import bound

import autotune
from autotune import te
from autotune.builder import BuiltFunction
from autotune.errors import ArgumentError, LaunchError, SaveError, TargetError
from autotune.runtime.cuda import cupy_driver, gpu_program


def doubled(threads: int = 64):
    """B[n] = 2 * A[n] with a size that calls read off the arrays."""
    n = te.var("n")
    A = te.placeholder((n,), "float32", name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    s = te.create_schedule(B.op)
    bound(s[B], s[B].op.axis[0], threads)
    return s, [A, B]


def in_two_kernels():
    """C = (A + 1) * 2 by way of an array that one kernel hands to the other."""
    A = te.placeholder((100,), "float32", name="A")
    B = te.compute((100,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((100,), lambda i: B[i] * 2.0, name="C")
    s = te.create_schedule(C.op)
    for stage, op in ((s[B], B.op), (s[C], C.op)):
        bound(stage, op.axis[0], 32)
    return s, [A, C]


@pytest.fixture(scope="module")
def double() -> BuiltFunction:
    return autotune.build(*doubled(), "cuda -arch=sm_90", name="double")


def test_the_text_is_there_without_a_compiler(monkeypatch):
    monkeypatch.setattr(gpu_program, "compile_cubin", None)
    text = autotune.build(*doubled(), "cuda", name="double").source
    assert 'extern "C" __global__ void __launch_bounds__(64) double_kernel(' in text


@needs_nvrtc
def test_a_schedule_is_compiled_for_a_gpu_that_is_not_there(double):
    program = double._compiled.program
    assert program.cubin.arch == "sm_90"
    assert program.cubin.kernels["double_kernel"].parameter_bytes == (8, 8, 8)
    assert pickle.loads(pickle.dumps(program)) == program
    with pytest.raises(SaveError, match="is built for a GPU, which is not saved"):
        double.save("never.so")


def test_without_a_driver_a_call_is_refused_in_one_line(double, monkeypatch):
    monkeypatch.setattr(cupy_driver, "driver_version", lambda: None)
    cupy_driver.cupy.cache_clear()
    with pytest.raises(TargetError, match="there is no driver for CUDA") as caught:
        double(np.zeros(4, "f4"), np.zeros(4, "f4"))
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith("; built for 'cuda -on=cpu', it runs on the processor")
    with pytest.raises(TargetError, match="does not say what to compile for, as -arch=sm_90"):
        _ = autotune.build(*doubled(), "cuda")._compiled.program


@needs_nvrtc
def test_sizes_are_read_off_the_arrays_and_make_the_grid(double, fake):
    seen = []
    fake.on_launch = lambda table: seen.append(passed(table, [8, 8, 8]))
    double(OnGpu(0x1000, (1000,)), OnGpu(0x3000, (1000,)))
    _, sizes, stream, _ = fake.launches[-1]
    assert (sizes, stream) == ([16, 1, 1, 64, 1, 1, 0], 5)
    assert seen == [[np.uint64(x).tobytes() for x in (0x1000, 0x3000, 1000)]]


@needs_nvrtc
def test_arrays_of_pytorch_are_used_on_its_current_stream(double, fake, monkeypatch):
    tensor = type("Tensor", (OnGpu,), {"__module__": "torch", "device": "cuda:0"})
    streams = {"cuda:0": SimpleNamespace(cuda_stream=99)}
    torch = SimpleNamespace(cuda=SimpleNamespace(current_stream=streams.get))
    monkeypatch.setitem(sys.modules, "torch", torch)
    double(tensor(0x1000), tensor(0x3000))
    assert fake.launches[-1][2] == 99


def test_empty_arrays_launch_nothing(double, fake):
    double(OnGpu(0x0, (0,)), OnGpu(0x0, (0,)))
    assert fake.launches == []


@needs_nvrtc
def test_kernels_run_in_order_with_memory_for_what_they_hand_on(fake):
    function = autotune.build(*in_two_kernels(), "cuda -arch=sm_90", name="two")
    seen = []
    fake.on_launch = lambda table: seen.append(passed(table, [8, 8]))
    function(OnGpu(0x1000, (100,)), OnGpu(0x3000, (100,)))
    assert [launch[1] for launch in fake.launches] == [[4, 1, 1, 32, 1, 1, 0]] * 2
    ((shape, dtype),) = fake.allocated
    assert (shape, dtype) == ((400,), "uint8")
    first, second = (set(map(int.from_bytes, (x[::-1] for x in pair))) for pair in seen)
    assert first == {0x1000, 0x8000}
    assert second == {0x8000, 0x3000}
    program = function._compiled.program
    assert pickle.loads(pickle.dumps(program)) == program


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([OnGpu(0x1000)], r"double takes 2 arrays \(A, B\), got 1"),
        ([OnGpu(0x1000), OnGpu(0x2000)], "argument 2, 'B', must be in the memory of cuda:0"),
        ([np.zeros(4, "f4")] * 2, "argument 1, 'A', must be in the memory of cuda:0, got ndarray"),
        ([OnGpu(0x1000, typestr="<f8"), OnGpu(0x3000)], "must have dtype float32, got float64"),
        ([OnGpu(0x1000), OnGpu(0x3000, (5,))], r"must have shape \(4,\), which is \(n,\)"),
        ([OnGpu(0x1000), OnGpu(0x1000)], "it must share no memory with other arguments"),
        ([OnGpu(0x1004), OnGpu(0x3000)], "must begin at a multiple of 16 bytes, got .* 0x1004"),
    ],
)
def test_arrays_that_do_not_fit_are_one_line(double, fake, arrays, message):
    fake.memory[0x1004] = 0
    with pytest.raises(ArgumentError, match=message) as caught:
        double(*arrays)
    assert "\n" not in str(caught.value)
    assert fake.launches == []


def test_code_for_another_architecture_is_refused(fake):
    other = autotune.build(*doubled(), "cuda -arch=sm_80", name="double")
    with pytest.raises(TargetError, match=r"built for sm_80, and cuda:0 is sm_90: build it for"):
        other(OnGpu(0x1000), OnGpu(0x3000))


@pytest.mark.parametrize(
    ("compiled", "there", "runs"),
    [
        ("sm_90", "sm_90", True), ("sm_80", "sm_86", True), ("sm_86", "sm_80", False),
        ("sm_80", "sm_90", False), ("sm_90a", "sm_90", True), ("sm_100", "sm_103", True),
        ("sm_100a", "sm_103", False), ("sm_120", "sm_100", False),
    ],
)  # fmt: skip
def test_newer_gpus_of_one_major_version_run_code_of_older_ones(compiled, there, runs):
    assert cupy_driver.runs_on(compiled, there) is runs


@needs_nvrtc
def test_a_launch_beyond_the_limits_of_the_architecture_is_refused_when_it_is_built():
    program = autotune.build(*doubled(), "cuda -arch=sm_90")._compiled.program
    (launch,) = program.launches
    large = replace(launch, grid=(1, 1, 1), block=(64, 32, 1))
    with pytest.raises(LaunchError, match=r"a block of 2048 \(64 x 32 x 1\) threads is too much"):
        replace(program, launches=(large,)).check()
