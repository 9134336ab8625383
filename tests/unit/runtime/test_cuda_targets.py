"""The same kernel on both targets: `cuda` and `cuda -on=cpu` differ in the machine alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.gpu_cases import bound
from support.rejections import rejections

import autotune
from autotune import te
from autotune.errors import InstantiationError, LoweringError
from autotune.ir.printer import stmt_text
from autotune.runtime.cuda.gpu_source import kernel_source
from autotune.schedule.schedule import Schedule
from autotune.target import Target
from autotune.task.task import Task
from autotune.te.tensor import Tensor

STRUCTURES = Path(__file__).parents[3] / "benchmarks" / "structures.py"


@pytest.mark.parametrize("arch", ["", " -arch=sm_80"])
@pytest.mark.parametrize(("template", "n"), [("matmul_cuda", 24), ("broadcast_add_cuda", 256)])
def test_both_targets_have_the_same_space_and_the_same_functions(
    template: str, n: int, arch: str
) -> None:
    gpu, cpu = (
        Task.from_reference(f"{STRUCTURES}:{template}", {"n": n}, f"cuda{arch}{on}")
        for on in ("", " -on=cpu")
    )
    assert len(gpu.space) == len(cpu.space)
    assert gpu.default_index == cpu.default_index
    assert gpu.fingerprints == cpu.fingerprints
    indices = np.random.default_rng(0).integers(len(gpu.space), size=200)
    legal = gpu.space.feasible(indices)
    assert legal.sum() > 0
    np.testing.assert_array_equal(legal, cpu.space.feasible(indices))
    assert rejections(gpu.space, indices) == rejections(cpu.space, indices)
    for index in indices[legal][:5]:
        assert gpu.fingerprints_of(index) == cpu.fingerprints_of(index)
        assert stmt_text(gpu.final(index).body) == stmt_text(cpu.final(index).body)


def test_limits_are_those_of_the_gpu_on_both() -> None:
    assert Target("cuda", {"on": "cpu"}).gpu == Target("cuda").gpu
    assert Target.of("cuda -arch=sm_90 -on=cpu").gpu == Target.of("cuda -arch=sm_90").gpu
    assert Target.of("cuda -on=cpu").vector_bytes == Target.of("cuda").vector_bytes


def test_the_processor_runs_llvm_and_cuda_on_cpu() -> None:
    assert [Target.of(text).on_cpu for text in ("llvm", "cuda -on=cpu", "cuda")] == [
        True,
        True,
        False,
    ]
    assert Target.of("llvm -threads=1").host == Target.of("llvm -threads=1")
    assert Target.of("cuda -on=cpu").host == Target.of("llvm")


def test_a_reduction_across_one_thread_is_one_of_any_length() -> None:
    A = te.placeholder((5, 1), name="A")
    k = te.reduce_axis((0, 1), name="k")
    R = te.compute((5,), lambda i: te.sum(A[i, k], axis=k), name="R")
    s = te.create_schedule(R.op)
    s[R].bind(s[R].op.axis[0], te.thread_axis("blockIdx.x"))
    s[R].bind(k, te.thread_axis("threadIdx.x"))
    values, result = np.arange(5, dtype=np.float32).reshape(5, 1), np.empty(5, np.float32)
    autotune.build(s, [A, R], "cuda -on=cpu")(values, result)
    np.testing.assert_array_equal(result, values[:, 0])


def test_a_reduction_across_threads_under_a_condition_stores_whatever_the_condition_is() -> None:
    A = te.placeholder((3, 10), name="A")
    k = te.reduce_axis((0, 10), name="k")
    R = te.compute((3,), lambda i: te.sum(A[i, k], axis=k, where=k + 3 * i >= 9), name="R")
    s = te.create_schedule(R.op)
    s[R].bind(s[R].op.axis[0], te.thread_axis("blockIdx.x"))
    s[R].bind(s[R].split(k, factor=4)[1], te.thread_axis("threadIdx.x"))
    values, result = np.arange(30, dtype=np.float32).reshape(3, 10), np.full(3, np.nan, "f4")
    autotune.build(s, [A, R], "cuda -on=cpu")(values, result)
    np.testing.assert_array_equal(result, [9, 16 + 17 + 18 + 19, 182])


def test_a_block_of_more_threads_than_a_gpu_has_is_refused() -> None:
    A = te.placeholder((4096,), name="A")
    B = te.compute((4096,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    bound(s[B], s[B].op.axis[0], 2048)
    with pytest.raises(InstantiationError, match="a block has at most 1024 threads"):
        autotune.build(s, [A, B], "cuda -on=cpu")


def test_a_schedule_of_symbolic_size_runs_at_every_size() -> None:
    n = te.var("n")
    A = te.placeholder((n, n), name="A")
    B = te.compute((n, n), lambda i, j: A[j, i] * 2.0, name="B")
    s = te.create_schedule(B.op)
    cache = s.cache_read(A, "shared", [B])
    y, x, *inner = s[B].tile(*s[B].op.axis, 8, 8)
    s[B].bind(y, te.thread_axis("blockIdx.y"))
    s[B].bind(x, te.thread_axis("blockIdx.x"))
    s[cache].compute_at(s[B], x)
    for stage, axes in ((s[B], inner), (s[cache], s[cache].op.axis)):
        for axis, tag in zip(axes, ("threadIdx.y", "threadIdx.x"), strict=True):
            stage.bind(axis, te.thread_axis(tag))
    built = autotune.build(s, [A, B], "cuda -on=cpu")
    for size in (0, 1, 7, 8, 17):
        values = np.random.default_rng(size).random((size, size), np.float32)
        result = np.full((size, size), 77, np.float32)
        built(values, result)
        np.testing.assert_array_equal(result, 2 * values.T)


def test_two_kernels_of_sizes_that_are_chosen_between_are_built_for_both_targets() -> None:
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1, name="B")
    C = te.compute((m,), lambda i: B[i % 5] * 2, name="C")
    s = te.create_schedule(C.op)
    for tensor in (B, C):
        bound(s[tensor], tensor.op.axis[0], 64)
    gpu, cpu = (autotune.build(s, [A, C], f"cuda{on}") for on in ("", " -on=cpu"))
    first, second = kernel_source(gpu.function).launches
    for length in (0, 1, 3, 64, 65, 1000):
        known = dict.fromkeys(first.sizes + second.sizes, length)
        known = {name: 9 if name == "n" else length for name in known}
        grids = [None if at is None else at.grid for at in (first.at(known), second.at(known))]
        assert grids == ([None] * 2 if length == 0 else [(1, 1, 1), (-(-length // 64), 1, 1)])
        a, c = np.arange(9, dtype="float32"), np.zeros(length, "float32")
        cpu(a, c)
        np.testing.assert_array_equal(c, (a[np.arange(length) % 5] + 1) * 2)


def test_local_storage_of_a_size_that_only_a_call_knows_is_refused_by_both_targets() -> None:
    n = te.var("n")
    A = te.placeholder((n, 4), name="A")
    B = te.compute((n, 4), lambda i, j: A[i, j] + 1, name="B")
    k = te.reduce_axis((0, n), "k")
    C = te.compute((4,), lambda j: te.sum(B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    s[C].bind(C.op.axis[0], te.thread_axis("threadIdx.x"))
    s[B].compute_at(s[C], C.op.axis[0])
    message = "local storage of 'B' has the extent `n`, which is not known when the kernel is"
    for target in ("cuda", "cuda -on=cpu"):
        with pytest.raises(LoweringError, match=message):
            autotune.build(s, [A, C], target)


def bound_to(**axes: tuple[str, int]) -> tuple[Schedule, list[Tensor]]:
    """B = 2 A (4096 x 80000), the inner parts of whose axes are bound."""
    A = te.placeholder((4096, 80000), name="A")
    B = te.compute((4096, 80000), lambda i, j: A[i, j] * 2, name="B")
    s = te.create_schedule(B.op)
    for axis, (tag, factor) in zip(B.op.axis, axes.values(), strict=False):
        s[B].bind(s[B].split(axis, factor=factor)[1], te.thread_axis(tag))
    return s, [A, B]


@pytest.mark.parametrize("target", ["cuda", "cuda -on=cpu"])
@pytest.mark.parametrize(
    ("axes", "message"),
    [
        (
            {"i": ("threadIdx.x", 2048)},
            "stage 'B', axis 'i.inner': 2048 iterations are bound to threadIdx.x, but a block has "
            "at most 1024 threads along x; split the axis to at most that length, or bind the "
            "outer part to blocks",
        ),
        (
            {"i": ("threadIdx.z", 128)},
            "stage 'B', axis 'i.inner': 128 iterations are bound to threadIdx.z, but a block has "
            "at most 64 threads along z; split the axis to at most that length, or bind the outer "
            "part to blocks",
        ),
        (
            {"i": ("threadIdx.y", 64), "j": ("threadIdx.x", 32)},
            "stage 'B': axes 'i.inner' (64, threadIdx.y) and 'j.inner' (32, threadIdx.x) together "
            "make 2048 threads of a block, which has at most 1024; split the axes further, and "
            "bind the outer parts to blocks",
        ),
        (
            {"i": ("threadIdx.x", 32), "j": ("blockIdx.y", 70000)},
            "stage 'B', axis 'j.inner': 70000 iterations are bound to blockIdx.y, but a grid has "
            "at most 65535 blocks along y; split the axis to at most that length, or bind it to "
            "blockIdx.x",
        ),
    ],
)
def test_a_limit_of_threads_is_told_with_stage_axis_extent_and_remedy(
    axes: dict[str, tuple[str, int]], message: str, target: str
) -> None:
    with pytest.raises(InstantiationError) as error:
        autotune.build(*bound_to(**axes), target)
    assert str(error.value) == message
