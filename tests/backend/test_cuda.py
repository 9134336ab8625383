"""CUDA sources: how they read, that compilers take them, and that they compute the right thing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_compiler import needs_nvrtc
from cuda_on_host import needs_compiler, run_on_host
from te_reference import Reference, random_array

from autotune import te
from autotune.codegen.cuda import CUDASource, emit
from autotune.ir.interpreter import interpret
from autotune.ir.stmt import Function
from autotune.ir.verify import verify
from autotune.lowering.finalise import analyse
from autotune.lowering.kernels import finalise_kernels
from autotune.lowering.nest import lower_schedule
from autotune.runtime.nvrtc import compile_cubin
from autotune.schedule.schedule import Schedule
from autotune.target import Target
from autotune.task import Task
from autotune.te.tensor import PlaceholderOp, Tensor
from benchmarks import structures

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")


def function_of(schedule: Schedule, tensors: Sequence[Tensor], name: str = "main") -> Function:
    return verify(finalise_kernels(analyse(lower_schedule(schedule, tensors, name))))


def check(
    schedule: Schedule, tensors: Sequence[Tensor], folder: Path, sizes: Any = None
) -> CUDASource:
    """Run the source on the machine and the function in the interpreter; compare with NumPy."""
    function = function_of(schedule, tensors)
    source = emit(function)
    rng = np.random.default_rng(0)
    shapes = {t: tuple((sizes or {}).get(d, d) for d in t.shape) for t in tensors}
    given = {
        t: random_array(rng, shapes[t], t.dtype)
        for t in tensors
        if isinstance(t.op, PlaceholderOp)
    }
    reference = Reference(given, sizes)
    for how in ("interpreted", "as C++"):
        results = {t: np.full(shapes[t], 77, t.dtype) for t in tensors if t not in given}
        arrays = [given.get(t, results.get(t)) for t in tensors]
        if how == "interpreted":
            interpret(function, arrays, races=True)
        else:
            run_on_host(source, function.params, arrays, folder)
        for tensor, result in results.items():
            np.testing.assert_allclose(
                result, reference.array(tensor), rtol=1e-5, atol=1e-6, err_msg=how
            )
    return source


@needs_compiler
def test_tiles_in_shared_storage_compute(tmp_path: Path) -> None:
    task = Task(structures.matmul_cuda, {"n": 16}, Target("cuda"))
    rng = np.random.default_rng(3)
    a, b = (random_array(rng, (16, 16), "float32") for _ in range(2))
    for index in task.space.sample(2, rng):
        function = finalise_kernels(task.function(int(index)))
        result = np.full((16, 16), 77, "float32")
        run_on_host(emit(function), function.params, [a, b, result], tmp_path)
        np.testing.assert_allclose(result, a @ b, rtol=1e-5)


def bound(stage: Any, axis: Any, threads: int, lanes: int = 1) -> Any:
    """Bind an axis to blocks of so many threads, of which each computes some lanes."""
    if lanes > 1:
        axis, inner = stage.split(axis, factor=lanes)
        stage.vectorize(inner)
    bx, tx = stage.split(axis, factor=threads)
    stage.bind(bx, te.thread_axis("blockIdx.x"))
    stage.bind(tx, te.thread_axis("threadIdx.x"))
    return bx


@needs_compiler
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int8", "uint8", "int64"])
def test_elements_of_every_kind_are_loaded_together(dtype: str, tmp_path: Path) -> None:
    A, B = (te.placeholder((64,), dtype, name=name) for name in "AB")
    C = te.compute((64,), lambda i: A[i] * B[i] + A[i], name="C")
    s = te.create_schedule(C.op)
    bound(s[C], C.op.axis[0], 2, 8)
    source = check(s, [A, B, C], tmp_path)
    lanes = {"float64": 2, "int64": 2}.get(dtype, 8)
    assert f"pack<{lanes}>(&A[" in source.text


@needs_compiler
def test_a_transpose_through_padded_shared_storage(tmp_path: Path) -> None:
    source = check(*transposed(16, 4), tmp_path)
    assert "__shared__ __align__(16) float A_shared[20];" in source.text


def transposed(n: int, tile: int) -> tuple[Schedule, list[Tensor]]:
    A = te.placeholder((n, n), name="A")
    B = te.compute((n, n), lambda i, j: A[j, i], name="B")
    s = te.create_schedule(B.op)
    copy = s.cache_read(A, "shared", [B])
    i, j = B.op.axis
    by, bx, ty, tx = s[B].tile(i, j, tile, tile)
    s[copy].compute_at(s[B], bx)
    s[copy].storage_align(copy.op.axis[0], tile, 1)
    for stage, y, x in ((s[B], ty, tx), (s[copy], *copy.op.axis)):
        stage.bind(y, te.thread_axis("threadIdx.y"))
        stage.bind(x, te.thread_axis("threadIdx.x"))
    s[B].bind(by, te.thread_axis("blockIdx.y"))
    s[B].bind(bx, te.thread_axis("blockIdx.x"))
    return s, [A, B]


@needs_compiler
def test_sizes_known_at_the_call_take_64_bits(tmp_path: Path) -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    s = te.create_schedule(B.op)
    bound(s[B], B.op.axis[0], 4)
    source = check(s, [A, B], tmp_path, {n: 37})
    assert "long long n" in source.text


def row_sums(n: int, m: int, threads: int, rows: int = 1) -> tuple[Schedule, list[Tensor]]:
    """Sums of rows, each by several threads along x; blocks have several rows along y."""
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    _, tx = s[B].split(k, factor=threads)
    bx, ty = s[B].split(B.op.axis[0], factor=rows)
    s[B].bind(bx, te.thread_axis("blockIdx.x"))
    s[B].bind(ty, te.thread_axis("threadIdx.y"))
    s[B].bind(tx, te.thread_axis("threadIdx.x"))
    return s, [A, B]


@needs_compiler
@pytest.mark.parametrize(
    ("shape", "threads", "rows", "texts"),
    [
        ((2, 20), 8, 1, ["__shfl_xor_sync"]),
        ((3, 80), 64, 1, ["__shfl_xor_sync", "parts[tx / 32]", "__syncthreads"]),
        ((5, 24), 12, 2, ["parts[ty * 3 + tx / 4]", "for (int part"]),
        ((3, 9), 3, 2, ["parts[ty * 3 + tx]"]),
    ],
)
def test_threads_combine_their_parts_in_warps_and_then_through_shared_storage(
    shape: tuple[int, int], threads: int, rows: int, texts: list[str], tmp_path: Path
) -> None:
    source = check(*row_sums(*shape, threads, rows), tmp_path)
    for text in texts:
        assert text in source.text


@needs_compiler
def test_a_reduction_of_two_values_keeps_the_order_of_threads(tmp_path: Path) -> None:
    A = te.placeholder((2, 8), name="A")
    k = te.reduce_axis((0, 8), name="k")
    first = te.comm_reducer(
        lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.max(x[1], y[1])),
        lambda index, value: (te.const(-1, index), te.min_value(value)),
        name="argmax",
    )
    where, largest = te.compute((2,), lambda i: first((k.var, A[i, k]), axis=k), name="B")
    s = te.create_schedule(where.op)
    s[where].bind(where.op.axis[0], te.thread_axis("blockIdx.x"))
    s[where].bind(k, te.thread_axis("threadIdx.x"))
    source = check(s, [A, where, largest], tmp_path)
    assert "__shfl_down_sync" in source.text


@needs_compiler
def test_rows_of_softmax(tmp_path: Path) -> None:
    source = check(*softmax_rows(3, 40, 32), tmp_path)
    assert source.text.count("__global__") == 1


def softmax_rows(n: int, m: int, threads: int) -> tuple[Schedule, list[Tensor]]:
    """Each row in one block: its largest element and its sum are shared by all threads."""
    A = te.placeholder((n, m), name="A")
    k, r = te.reduce_axis((0, m), name="k"), te.reduce_axis((0, m), name="r")
    largest = te.compute((n,), lambda i: te.max(A[i, k], axis=k), name="M")
    total = te.compute((n,), lambda i: te.sum(te.exp(A[i, r] - largest[i]), axis=r), name="S")
    B = te.compute((n, m), lambda i, j: te.exp(A[i, j] - largest[i]) / total[i], name="B")
    s = te.create_schedule(B.op)
    i, j = B.op.axis
    _, tx = s[B].split(j, factor=threads)
    s[B].bind(i, te.thread_axis("blockIdx.x"))
    s[B].bind(tx, te.thread_axis("threadIdx.x"))
    for stage, axis in ((s[largest], k), (s[total], r)):
        stage.set_scope("shared")
        stage.compute_at(s[B], i)
        stage.bind(stage.split(axis, factor=threads)[1], te.thread_axis("threadIdx.x"))
    return s, [A, B]


@needs_nvrtc
@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("name", ["matmul_cuda", "conv2d_cuda", "broadcast_add_cuda"])
def test_the_benchmarks_structures_compile(name: str, arch: str) -> None:
    task = Task(getattr(structures, name), {}, Target("cuda"))
    for index in task.space.sample(1, np.random.default_rng(1)):
        source = emit(finalise_kernels(task.function(int(index))))
        cubin = compile_cubin(source.text, arch)
        assert list(cubin.kernels) == [kernel.entry for kernel in source.kernels]
        assert "warning" not in cubin.log
