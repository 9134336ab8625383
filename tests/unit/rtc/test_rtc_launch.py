"""Launches of GPU kernels are checked before they are made; no GPU takes part, a fake CuPy does."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from support.cuda_compiler import needs_nvrtc
from support.fake_cuda import OnGpu, passed

from autotune.errors import ArgumentError, LaunchError, TargetError
from autotune.rtc import launch, rtc_function
from autotune.rtc.elementwise import unary
from autotune.rtc.rtc_function import RTCFunction
from autotune.rtc.vector_plan import plan_vectors
from autotune.runtime.cuda import cupy_driver, gpu_arrays
from autotune.runtime.cuda.launch_limits import (
    LaunchSizes,
    block_registers,
    check_launch,
    limits_of_arch,
)
from autotune.runtime.cuda.nvrtc import Cubin, Usage
from autotune.target import GpuLimits

USAGE = Usage(32, 0, 0, 0, 1024, (8, 4, 4))
CUBIN = Cubin("sm_90", b"code", "", {"scale": USAGE}, {"scale": "scale"})


def kernel(device: int | None = 0, cubin: Cubin = CUBIN) -> RTCFunction:
    return RTCFunction("scale", "source", cubin, device)


# -- sizes ---------------------------------------------------------------------------------------


def refusal(grid, block, shared=0, usage=USAGE, arch="sm_90") -> str:
    sizes = LaunchSizes.of("scale", grid, block, shared)
    with pytest.raises(LaunchError) as caught:
        check_launch("scale", sizes, usage, limits_of_arch(arch), arch)
    return str(caught.value)


def test_limits_are_those_of_the_architecture():
    check_launch("f", LaunchSizes.of("f", 2**31 - 1, 1024), USAGE, limits_of_arch("sm_90"), "")
    most = LaunchSizes.of("f", 1, (8, 8, 16), 231424)
    check_launch("f", most, USAGE, limits_of_arch("sm_90a"), "")
    assert limits_of_arch("sm_86").shared_bytes == 99 * 1024


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((1, 2048), "scale: a block of 2048 threads is too much: sm_90 allows 1024"),
        ((1, (64, 8, 4)), "a block of 2048 (64 x 8 x 4) threads is too much: sm_90 allows 1024"),
        ((1, (1, 1, 65)), "a block of 65 threads along z is too much: sm_90 allows 64"),
        ((2**31, 32), "a grid of 2147483648 blocks along x is too much: sm_90 allows 2147483647"),
        (((1, 65536), 32), "a grid of 65536 blocks along y is too much: sm_90 allows 65535"),
        (
            (1, 32, 231425),
            "232449 bytes of shared memory (1024 declared, 231425 dynamic) is too much: "
            "sm_90 allows 232448",
        ),
    ],
)
def test_what_is_beyond_a_limit_is_told_with_limit_and_value(sizes, message):
    assert message in refusal(*sizes)


def test_registers_of_a_block_and_launch_bounds_are_limits():
    many = Usage(80, 0, 0, 0, 0)
    message = "1024 threads of 80 registers, 81920 together, is too much: sm_90 allows 65536"
    assert message in refusal(1, 1024, usage=many)
    bounded = Usage(32, 0, 0, 0, 0, (), 256)
    assert "a block of 512 threads is too much: its __launch_bounds__ allows 256" in refusal(
        1, 512, usage=bounded
    )


def test_registers_are_given_out_to_four_warps_at_a_time():
    assert block_registers(64, 1024) == 65536
    assert block_registers(33, 32) == 4 * 1280
    assert block_registers(32, 33) == 4 * 1024


@pytest.mark.parametrize("grid", [0, -1, (), (1, 1, 1, 1), 1.5, "1", True, (1, 0)])
def test_a_grid_is_one_to_three_positive_numbers(grid):
    with pytest.raises(LaunchError, match=r"grid must be 1 to 3 numbers >= 1"):
        LaunchSizes.of("f", grid, 1)


def test_sizes_are_read_in_every_form():
    made = LaunchSizes.of("f", np.int64(3), [4, 5], 7)
    assert (made.grid, made.block, made.shared_bytes) == ((3, 1, 1), (4, 5, 1), 7)
    with pytest.raises(LaunchError, match="shared_memory must be a number of bytes"):
        LaunchSizes.of("f", 1, 1, -4)


def test_launches_are_checked_without_a_device():
    alone = kernel(None)
    assert alone.check(7, 128).grid == (7, 1, 1)
    with pytest.raises(LaunchError, match="sm_90 allows 1024"):
        alone.check(7, 1025)
    with pytest.raises(TargetError, match=r"compiled for sm_90 without a device.*device=0"):
        launch(alone, 1, 1, 0, None, [])


# -- launches ------------------------------------------------------------------------------------


def test_a_launch_hands_over_sizes_stream_and_arguments(fake):
    seen = []  # read while the arguments are alive
    fake.on_launch = lambda table: seen.append(passed(table, [8, 4, 4]))
    launch(kernel(), 3, (32, 2), 2048, None, [OnGpu(0x1000), np.float32(1.5), 9])
    handle, sizes, stream, _ = fake.launches[0]
    assert (handle, sizes, stream) == (77, [3, 1, 1, 32, 2, 1, 2048], 5)
    assert seen == [
        [np.uint64(0x1000).tobytes(), np.float32(1.5).tobytes(), np.int32(9).tobytes()]
    ]
    assert fake.dynamic == [2048]


def test_a_stream_may_be_of_any_library(fake):
    class Protocol:
        def __cuda_stream__(self):
            return 0, 42

    for stream, handle in (
        (SimpleNamespace(ptr=11), 11),
        (SimpleNamespace(cuda_stream=12), 12),
        (Protocol(), 42),
        (13, 13),
    ):
        launch(kernel(), 1, 1, 0, stream, [OnGpu(0x1000), np.float32(0), 1])
        assert fake.launches[-1][2] == handle
    with pytest.raises(LaunchError, match="a stream must be"):
        launch(kernel(), 1, 1, 0, "default", [OnGpu(0x1000), np.float32(0), 1])


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "scale: the kernel has 3 parameters, got 0 arguments"),
        ([np.zeros(4), 1, 2], "argument 1 must be in the memory of cuda:0, got ndarray in the CPU"),
        ([OnGpu(0x2000), 1, 2], "argument 1 must be in the memory of cuda:0, got OnGpu on cuda:1"),
        ([OnGpu(0x9000), 1, 2], "argument 1 must be in the memory of cuda:0"),
        ([OnGpu(0x1000), 1.5, 2], "argument 2 must say its type, got 1.5: use numpy.float32"),
        ([OnGpu(0x1000), np.float64(1), 2], "argument 2 must have the 4 bytes .* of 8"),
        ([OnGpu(0x1000), 2**31, 2], "argument 2 must fit in the 4 bytes .*got 2147483648"),
        ([OnGpu(0x1000), 1, "n"], "argument 3 must be an array, a NumPy number"),
        ([OnGpu(0x1000, (2, 2), strides=(4, 8)), 1, 2], "argument 1 must be C-contiguous"),
        ([OnGpu(0x1000, typestr="<c8"), 1, 2], "argument 1 must have a dtype of .*got complex64"),
    ],
)
def test_arguments_that_do_not_fit_are_one_line(fake, args, message):
    with pytest.raises(ArgumentError, match=message) as caught:
        launch(kernel(), 1, 1, 0, None, args)
    assert "\n" not in str(caught.value)
    assert fake.launches == []


def test_too_large_a_launch_never_reaches_the_device(fake):
    with pytest.raises(LaunchError, match=r"cuda:0 \(sm_90\) allows 1024"):
        launch(kernel(), 1, 2000, 0, None, [OnGpu(0x1000), np.float32(0), 1])
    assert fake.launches == []


def test_what_the_driver_refuses_is_one_line(fake):
    fake.failure = "CUDA_ERROR_ILLEGAL_ADDRESS:\n an illegal memory access"
    message = "1 x 1 x 1 blocks of 32 x 1 x 1 threads on cuda:0 failed: CUDA_ERROR_ILLEGAL_ADDRESS"
    with pytest.raises(LaunchError, match=message):
        launch(kernel(), 1, 32, 0, None, [OnGpu(0x1000), np.float32(0), 1])
    broken = Cubin("sm_100", b"broken", "", {"scale": USAGE}, {"scale": "scale"})
    with pytest.raises(LaunchError, match=r"cuda:0 \(sm_90, CUDA 12.9\) refuses the code for sm_1"):
        launch(kernel(cubin=broken), 1, 32, 0, None, [OnGpu(0x1000), np.float32(0), 1])


# -- what is missing or does not fit ---------------------------------------------------------------


def importing(monkeypatch, module: ModuleType | None, driver=(12, 4)) -> str:
    """The line that is told with this CuPy (None: none is installed) and driver."""
    monkeypatch.setattr(cupy_driver, "driver_version", lambda: driver)
    monkeypatch.setitem(sys.modules, "cupy", module)
    with pytest.raises(TargetError) as caught:
        cupy_driver.cupy.__wrapped__()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def cupy_built_for(version: int, is_hip: bool = False) -> ModuleType:
    module = ModuleType("cupy")
    module.cuda = SimpleNamespace(
        runtime=SimpleNamespace(runtimeGetVersion=lambda: version, is_hip=is_hip)
    )
    return module


def test_no_driver_is_one_line(monkeypatch):
    assert importing(monkeypatch, cupy_built_for(12090), None).startswith(
        "there is no driver for CUDA on this machine (libcuda.so.1)"
    )


def test_no_cupy_is_one_line_with_the_remedy(monkeypatch):
    message = importing(monkeypatch, None)
    assert message.startswith("CuPy, which runs kernels, is not installed: pip install")
    assert "[cuda12]" in message


def test_the_wrong_build_of_cupy_is_told_with_the_right_one(monkeypatch):
    message = importing(monkeypatch, cupy_built_for(13000))
    assert "built for CUDA 13.0, and the driver supports 12.4: pip install cupy-cuda12x" in message
    assert "AMD's ROCm" in importing(monkeypatch, cupy_built_for(60000000, is_hip=True))


def test_a_cupy_that_fits_is_taken(monkeypatch):
    monkeypatch.setattr(cupy_driver, "driver_version", lambda: (13, 0))
    module = cupy_built_for(12090)
    monkeypatch.setitem(sys.modules, "cupy", module)
    assert cupy_driver.cupy.__wrapped__() is module


def test_devices_that_are_not_there_are_told(fake):
    with pytest.raises(TargetError, match=r"no device cuda:7: there are 2, from cuda:0 on"):
        rtc_function.get_function("", "f", "", 7)
    fake.devices = 0
    with pytest.raises(TargetError, match="no GPU that this process may use: see CUDA_VISIBLE"):
        cupy_driver.device_count()


def test_limits_of_a_device_are_read_off_it(fake):
    assert cupy_driver.limits_of(1) == GpuLimits(shared_bytes=232448)
    assert cupy_driver.arch_of(1) == "sm_90"


# -- the unary function ----------------------------------------------------------------------------


def test_arrays_of_a_unary_function_must_fit_each_other(fake):
    relu = unary("relu")
    x = OnGpu(0x1000, (4,))
    for out, message in (
        (OnGpu(0x3000, (5,)), r"out must have shape \(4,\), got \(5,\)"),
        (OnGpu(0x2000, (4,)), r"rtc.unary\('relu'\): out must be in the memory of cuda:0"),
        (OnGpu(0x1000, (4,)), "out must share no memory with x"),
    ):
        with pytest.raises(ArgumentError, match=message):
            relu(x, out)
    with pytest.raises(ArgumentError, match="request='add' needs an output"):
        relu(x, request="add")
    with pytest.raises(ArgumentError, match="x must be in the memory of cuda:0, got ndarray"):
        relu(np.zeros(4))
    assert fake.launches == []


def test_a_request_of_null_does_nothing(fake):
    out = OnGpu(0x3000)
    assert unary("relu")(OnGpu(0x1000), out, request="null") is out
    assert fake.launches == []


def test_numbers_are_no_arrays_and_arrays_tell_shape_and_type(fake):
    assert gpu_arrays.is_array(OnGpu(0x1000))
    assert not gpu_arrays.is_array(np.float32(1))
    found = gpu_arrays.gpu_array(OnGpu(0x1000, (2, 3), "<f2"), 0, 0)
    assert (found.address, found.shape, found.dtype) == (0x1000, (2, 3), "float16")
    assert found.nbytes == 12


class ByDlpack:
    """An array that says by DLPack that it is on a GPU."""

    def __init__(self, held: np.ndarray, device: tuple[int, int]) -> None:
        self.held, self.device = held, device
        self.streams: list[int] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, *, stream=None, max_version=None):
        self.streams.append(stream)
        return self.held.__dlpack__()


def test_arrays_come_through_dlpack_with_their_device(fake):
    held = np.zeros((3, 5), "uint8")
    array = ByDlpack(held, (2, 1))
    found = gpu_arrays.gpu_array(array, 1, 9)
    assert (found.address, found.shape) == (held.ctypes.data, (3, 5))
    assert (found.dtype, found.device, array.streams) == ("uint8", 1, [9])
    gpu_arrays.gpu_array(array, 1, 0)
    assert array.streams[-1] == 1  # DLPack's name of the default stream
    with pytest.raises(ArgumentError, match="cuda:0, got ByDlpack on cuda:1: copy it"):
        gpu_arrays.gpu_array(array, 0, 0)
    with pytest.raises(ArgumentError, match="must be C-contiguous"):
        gpu_arrays.gpu_array(ByDlpack(held[:, :3], (2, 0)), 0, 0)
    with pytest.raises(ArgumentError, match="got ByDlpack in the CPU's"):
        gpu_arrays.gpu_array(ByDlpack(held, (1, 0)), 0, 0)


@needs_nvrtc
@pytest.mark.parametrize(
    ("start", "size", "vectorized", "kernel", "blocks"),
    [
        (0, 4096, True, "aligned = true", 2),  # vectors of 4 float32
        (4, 4096, True, "aligned = false", 3),  # one more, as both begin at lane 1
        (0, 4096, False, "", 8),
    ],
)
def test_a_unary_function_launches_the_kernel_that_its_arrays_allow(
    fake, start, size, vectorized, kernel, blocks
):
    fake.memory |= {0x1000 + start: 0, 0x90000 + start: 0}
    seen = []
    fake.on_launch = lambda table: seen.append(passed(table, [8, 8, 4]))
    relu = unary("relu")
    relu(OnGpu(0x1000 + start, (size,)), OnGpu(0x90000 + start, (size,)), vectorized=vectorized)
    (launched,) = fake.launches
    assert launched[1][:4] == [blocks, 1, 1, 512]
    assert seen[0][2] == np.int32(size).tobytes()
    plan = plan_vectors([0x1000 + start, 0x90000 + start], ["float32"] * 2, size)
    text = relu.parameters("float32", "float32", "write", plan if vectorized else None)
    assert kernel in text
    assert ("nvec" in text) is vectorized
