"""Kernels as text on a GPU, against NumPy; run with -m gpu where there is one."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from support.dtype_values import random_values
from support.rtc_variants import NINE

from autotune.errors import ArgumentError, LaunchError
from autotune.ir import dtypes
from autotune.rtc import UNARY, get_function, launch, unary
from autotune.runtime.cuda.gpu_arrays import GpuArray

pytestmark = pytest.mark.gpu


def on_gpu(cupy, array: np.ndarray, start: int) -> tuple[GpuArray, Callable[[], np.ndarray]]:
    """A copy that begins some elements after a multiple of 256 bytes, and what reads it back.

    It is made of bytes, as CuPy need not have every type.
    """
    itemsize = array.dtype.itemsize
    raw = cupy.zeros(array.nbytes + 256 + start * itemsize, "uint8")
    begin = -raw.data.ptr % 256 + start * itemsize
    held = raw[begin : begin + array.nbytes]
    held.set(array.view("uint8"))
    made = GpuArray(held.data.ptr, array.shape, array.dtype.name, 0, True, held)
    return made, lambda: held.get().view(array.dtype)


@pytest.mark.parametrize("input", NINE)
@pytest.mark.parametrize("operator", ["sigmoid", "relu"])
def test_the_unary_kernel_computes_what_numpy_does(cupy, input, operator):
    made = unary(operator)
    for output, request, vectorized, start in itertools.product(
        NINE, ("null", "write", "add"), (False, True), (0, 1, 3)
    ):
        for size in (1, 203, 100_003):
            x, old = random_values(input, size), random_values(output, size, 1)
            source, _ = on_gpu(cupy, x, start)
            target, read = on_gpu(cupy, old, start)
            made(source, target, request=request, vectorized=vectorized)
            found, expected = read(), made.reference(x, old, request)
            exact = operator == "relu" or not dtypes.is_float(output)
            slack = (0 if operator == "relu" else 1) if exact else 4e-6
            tolerance = 0 if exact else max(4 * dtypes.epsilon(output), 2e-6)
            np.testing.assert_allclose(
                found.astype("float64"), expected.astype("float64"), rtol=tolerance, atol=slack
            )


@pytest.mark.parametrize("name", UNARY)
def test_every_operator_computes_what_numpy_does(cupy, name):
    made = unary(name)
    for dtype in ("float16", "float32", "float64", "int8", "int64"):
        x = random_values(dtype, 1000)
        found = made(cupy.asarray(x)).get()
        expected = made.operator(x)
        assert found.dtype == expected.dtype
        tolerance = 1e-12 if found.dtype == np.float64 else 1e-5
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(
                found.astype("float64"), expected.astype("float64"), rtol=tolerance, atol=1e-6
            )


def test_arrays_and_streams_of_the_caller_are_used(cupy):
    relu = unary("relu")
    x = cupy.arange(-50, 50, dtype="float32")
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        x = x * 2
    out = cupy.empty_like(x)
    assert relu(x, out, stream=stream) is out
    stream.synchronize()
    np.testing.assert_array_equal(out.get(), np.maximum(x.get(), 0))
    with pytest.raises(ArgumentError, match="must be C-contiguous"):
        relu(cupy.zeros((4, 4), "float32").T[:, ::2])


def test_dynamic_shared_memory_beyond_48_kib_is_asked_for(cupy):
    code = """
    extern "C" __global__ void reverse(const float* from, float* to, int n) {
      extern __shared__ float held[];
      for (int i = threadIdx.x; i < n; i += blockDim.x) held[i] = from[i];
      __syncthreads();
      for (int i = threadIdx.x; i < n; i += blockDim.x) to[i] = held[n - 1 - i];
    }
    """
    kernel = get_function("", "reverse", code, 0)
    count = min(kernel.limits.shared_bytes, 96 * 1024) // 4
    x = cupy.arange(count, dtype="float32")
    y = cupy.zeros_like(x)
    launch(kernel, 1, 256, 4 * count, None, [x, y, count])
    np.testing.assert_array_equal(y.get(), x.get()[::-1])
    with pytest.raises(LaunchError, match="bytes of shared memory"):
        launch(kernel, 1, 256, kernel.limits.shared_bytes + 1, None, [x, y, count])


def test_structures_are_passed_by_value(cupy):
    code = """
    struct Line { float slope; float offset; };
    extern "C" __global__ void apply(Line line, float* x) {
      x[threadIdx.x] = line.slope * x[threadIdx.x] + line.offset;
    }
    """
    x = cupy.arange(32, dtype="float32")
    line = np.array([(2.0, 1.0)], [("slope", "f4"), ("offset", "f4")])[0]
    launch(get_function("", "apply", code, 0), 1, 32, 0, None, [line, x])
    np.testing.assert_array_equal(x.get(), 2 * np.arange(32) + 1)
