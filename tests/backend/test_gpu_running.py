"""Functions built for GPUs run on one, against NumPy; run with -m gpu where there is one."""

from pathlib import Path

import numpy as np
import pytest
from support.gpu_cases import bound

import autotune
from autotune import te
from autotune.builder import BuiltFunction
from autotune.errors import ArgumentError
from autotune.task.task import Task

pytestmark = pytest.mark.gpu

EXAMPLE = f"{Path(__file__).parents[2] / 'examples' / 'raw_kernel.py'}:elementwise"


def test_sizes_of_a_call_make_the_grid(cupy):
    n = te.var("n")
    A = te.placeholder((n,), "float32", name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    s = te.create_schedule(B.op)
    bound(s[B], s[B].op.axis[0], 64)
    function = autotune.build(s, [A, B], "cuda")
    for size in (1, 64, 1000, 1_000_003):
        a = cupy.arange(size, dtype="float32")
        b = cupy.full(size, np.nan, "float32")
        function(a, b)
        np.testing.assert_array_equal(b.get(), 2 * a.get())
    with pytest.raises(ArgumentError, match="must be in the memory of cuda:0"):
        function(np.zeros(4, "float32"), np.zeros(4, "float32"))


def test_kernels_hand_arrays_on(cupy):
    A = te.placeholder((1000,), "float32", name="A")
    B = te.compute((1000,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((1000,), lambda i: B[999 - i] * 2.0, name="C")
    s = te.create_schedule(C.op)
    bound(s[B], B.op.axis[0], 32)
    bound(s[C], C.op.axis[0], 128)
    function = autotune.build(s, [A, C], "cuda")
    a, c = cupy.arange(1000, dtype="float32"), cupy.zeros(1000, "float32")
    function(a, c)
    np.testing.assert_array_equal(c.get(), 2 * (a.get()[::-1] + 1))


@pytest.mark.parametrize(("n", "dtype"), [(1 << 16, "float16"), (100_003, "float32")])
def test_every_configuration_of_a_kernel_as_text_computes_its_reference(cupy, n, dtype):
    task = Task.from_reference(EXAMPLE, {"n": n, "dtype": dtype}, "cuda")
    x = np.random.default_rng(0).normal(size=n).astype(dtype)
    expected = task.reference(x).astype("float64")
    on_gpu = cupy.asarray(x)
    legal = [index for index in range(len(task.space)) if not task.refusal(index)]
    for index in legal:
        y = cupy.full(n, np.nan, dtype)
        BuiltFunction(task.final(index), task.target)(on_gpu, y)
        np.testing.assert_allclose(y.get().astype("float64"), expected, rtol=2e-3, atol=1e-6)
