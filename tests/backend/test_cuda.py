"""CUDA sources: how they read, that compilers take them, and that they compute the right thing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cuda_compiler import needs_nvrtc
from support.cuda_on_host import run_on_host
from support.gpu_cases import bound, matmul, row_sums, softmax, transpose
from support.host_cuda import needs_host_compiler
from support.slow_cases import slow_names
from support.te_reference import Reference, random_array
from support.verify import verify

from autotune import te
from autotune.codegen.cuda.cuda_source import CUDASource, emit
from autotune.ir.evaluate.interpreter import interpret
from autotune.ir.stmt import PrimFunc
from autotune.lowering.finalise import analyse
from autotune.lowering.gpu.finalise_kernels import finalise_kernels
from autotune.lowering.nest.lower_schedule import lower_schedule
from autotune.runtime.cuda.nvrtc import compile_cubin
from autotune.schedule.schedule import Schedule
from autotune.target import Target
from autotune.task.task import Task
from autotune.te.tensor import PlaceholderOp, Tensor
from benchmarks import structures

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")


def function_of(schedule: Schedule, tensors: Sequence[Tensor], name: str = "main") -> PrimFunc:
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
        t: random_array(rng, shapes[t], t.dtype) for t in tensors if isinstance(t.op, PlaceholderOp)
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


@needs_host_compiler
def test_tiles_in_shared_storage_compute(tmp_path: Path) -> None:
    task = Task(structures.matmul_cuda, {"n": 16}, Target("cuda"))
    rng = np.random.default_rng(3)
    a, b = (random_array(rng, (16, 16), "float32") for _ in range(2))
    for index in task.space.sample(2, rng):
        function = finalise_kernels(task.function(int(index)))
        result = np.full((16, 16), 77, "float32")
        run_on_host(emit(function), function.params, [a, b, result], tmp_path)
        np.testing.assert_allclose(result, a @ b, rtol=1e-5)


@needs_host_compiler
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int8", "uint8", "int64"])
def test_elements_of_every_kind_are_loaded_together(dtype: str, tmp_path: Path) -> None:
    A, B = (te.placeholder((64,), dtype, name=name) for name in "AB")
    C = te.compute((64,), lambda i: A[i] * B[i] + A[i], name="C")
    s = te.create_schedule(C.op)
    bound(s[C], C.op.axis[0], 2, 8)
    source = check(s, [A, B, C], tmp_path)
    lanes = {"float64": 2, "int64": 2}.get(dtype, 8)
    assert f"pack<{lanes}>(&A[" in source.text


@needs_host_compiler
def test_a_transpose_through_padded_shared_storage(tmp_path: Path) -> None:
    source = check(*transpose(16, 4), tmp_path)
    assert "__shared__ __align__(16) float A_shared[20];" in source.text


@needs_host_compiler
def test_sizes_known_at_the_call_take_64_bits(tmp_path: Path) -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    s = te.create_schedule(B.op)
    bound(s[B], B.op.axis[0], 4)
    source = check(s, [A, B], tmp_path, {n: 37})
    assert "long long n" in source.text


@needs_host_compiler
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


@needs_host_compiler
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


@needs_host_compiler
def test_rows_of_softmax(tmp_path: Path) -> None:
    source = check(*softmax(3, 40, 32), tmp_path)
    assert source.text.count("__global__") == 1


@needs_host_compiler
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8"])
def test_small_types_are_stored_and_wide_ones_add_up(dtype: str, tmp_path: Path) -> None:
    source = check(*matmul(16, dtype, (1, 4, 2), 8, 4), tmp_path)
    wide = "int" if dtype == "int8" else "float"
    assert f"{wide} C_local[4];" in source.text
    assert f"{wide}* __restrict__ C" in source.text


@needs_host_compiler
@pytest.mark.parametrize("ahead", [True, "registers", "copies"])
def test_tiles_that_are_fetched_ahead_need_one_barrier_each(
    ahead: bool | str, tmp_path: Path
) -> None:
    source = check(*matmul(16, "float32", (1, 4, 2), 4, 1, ahead), tmp_path)
    before, loop = source.text.split("for (int k_o")
    inside = loop[: loop.index("\n  }\n")]
    assert [text.count("__syncthreads();") for text in (before, inside, loop)] == [0, 1, 2]


@needs_host_compiler
def test_through_registers_loads_come_before_the_use_and_stores_after(tmp_path: Path) -> None:
    source = check(*matmul(32, "float32", (1, 4, 4), 4, 4, "registers"), tmp_path)
    loop = source.text.partition("for (int k_o")[2]
    places = [loop.index(text) for text in ("= A_pack", "__sync", "C_local[", "= A_shared_next")]
    assert places == sorted(places)


def windows(lanes: int, side: int = 9) -> tuple[Schedule, list[Tensor]]:
    """Sums over windows of images, which threads fetch in tiles, `lanes` elements together."""
    A = te.placeholder((2, 3, side, side), name="A")
    size, k = side * side, te.reduce_axis((0, 27), "k")

    def element(step: Any, place: Any) -> Any:
        y, x = place % size // side + step % 9 // 3 - 1, place % side + step % 3 - 1
        inside = te.all(y >= 0, y < side, x >= 0, x < side)
        return te.if_then_else(inside, A[place // size, step // 9, y, x], te.const(0, "float32"))

    W = te.compute((27, 2 * size), element, name="W")
    B = te.compute((2 * size,), lambda i: te.sum(W[k, i] * (k + 1), k), name="B")
    s = te.create_schedule(B.op)
    T = s.cache_write(B, "local")
    block, thread = s[B].split(B.op.axis[0], factor=side)
    s[B].bind(block, te.thread_axis("blockIdx.x"))
    s[B].bind(thread, te.thread_axis("threadIdx.x"))
    s[T].compute_at(s[B], thread)
    outer, _ = s[T].split(T.op.reduce_axis[0], factor=lanes)
    s[W].set_scope("shared")
    s[W].compute_at(s[T], outer)
    s[W].double_buffer("registers")
    rest, vector = s[W].split(s[W].fuse(*W.op.axis), factor=lanes)
    s[W].vectorize(vector)
    s[W].bind(s[W].split(rest, factor=side)[1], te.thread_axis("threadIdx.x"))
    return s, [A, B]


@needs_host_compiler
@pytest.mark.parametrize("lanes", [1, 3])
def test_addresses_that_need_divisions_are_computed_an_iteration_before_the_loads(
    lanes: int, tmp_path: Path
) -> None:
    text = check(*windows(lanes), tmp_path).text
    before, _, loop = text.partition("for (int k_o")
    assert before.count(" W_at = ") == loop.count(" W_at = ") == 1
    places = [loop.index(part) for part in ("? A[", "B_local +=", " W_at = ")]
    assert places == sorted(places)


@needs_host_compiler
def test_copies_start_before_the_use_and_arrive_after_it(tmp_path: Path) -> None:
    source = check(*matmul(32, "float32", (1, 4, 4), 4, 4, "copies"), tmp_path)
    loop = source.text.partition("for (int k_o")[2]
    start = "copy_ahead(pack<4>(&"
    order = ("__sync", f"{start}A_", f"{start}B_", "C_local[", "await_copies();")
    places = [loop.index(text) for text in order]
    assert places == sorted(places)


@needs_host_compiler
@pytest.mark.parametrize(("dtype", "lanes"), [("int8", 2), ("float16", 1)])
def test_pieces_of_less_than_four_bytes_are_no_copies(
    dtype: str, lanes: int, tmp_path: Path
) -> None:
    source = check(*matmul(16, dtype, (1, 4, 2), 4, lanes, "copies"), tmp_path)
    assert "copy_ahead" not in source.text


@needs_host_compiler
@pytest.mark.parametrize(
    ("dtype", "lanes"), [("float32", 4), ("float16", 4), ("float32", 1), ("int8", 2)]
)
def test_results_that_nobody_reads_soon_are_stored_past_the_caches(
    dtype: str, lanes: int, tmp_path: Path
) -> None:
    A = te.placeholder((96,), dtype, name="A")
    B = te.compute((96,), lambda i: A[i] + A[i], name="B")
    s = te.create_schedule(B.op)
    bx = bound(s[B], B.op.axis[0], 4, lanes)
    s[B].pragma(bx, "nontemporal_store")
    s[B].pragma(bx, "blocks_per_multiprocessor", 3)
    text = check(s, [A, B], tmp_path).text
    assert "  stream(" in text
    assert "__launch_bounds__(4, 3)" in text


@needs_host_compiler
def test_shared_storage_beyond_48_kib_is_asked_for_at_the_launch(tmp_path: Path) -> None:
    n = 13000
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[n - 1 - i], name="B")
    s = te.create_schedule(B.op)
    copy = s.cache_read(A, "shared", [B])
    block, _ = s[B].split(B.op.axis[0], factor=n)
    for stage, axis in ((s[B], s[B].leaf_axes[1]), (s[copy], copy.op.axis[0])):
        stage.bind(stage.split(axis, factor=4)[1], te.thread_axis("threadIdx.x"))
    s[copy].compute_at(s[B], block)
    source = check(s, [A, B], tmp_path)
    assert source.kernels[0].dynamic_shared_bytes == 4 * n
    assert "float* A_shared = reinterpret_cast<float*>(shared);" in source.text


def test_indices_take_64_bits_only_where_32_do_not_suffice() -> None:
    texts = []
    for n in (2**31, 2**31 + 1024):
        A = te.placeholder((n,), "int8", name="A")
        B = te.compute((n,), lambda i, A=A: A[i], name="B")
        s = te.create_schedule(B.op)
        bound(s[B], B.op.axis[0], 1024)
        texts.append(emit(function_of(s, [A, B])).text)
    assert "B[bx * 1024 + tx] = A[bx * 1024 + tx];" in texts[0]
    assert "B[(long long)bx * 1024 + tx]" in texts[1]


def test_each_stage_at_the_root_is_a_kernel_and_hands_on_what_it_made() -> None:
    A = te.placeholder((64,), name="A")
    T = te.compute((64,), lambda i: A[i] * 2.0, name="T")
    B = te.compute((64,), lambda i: T[63 - i], name="B")
    s = te.create_schedule(B.op)
    for tensor in (T, B):
        bound(s[tensor], tensor.op.axis[0], 32)
    source = emit(function_of(s, [A, B], "two"))
    assert [kernel.entry for kernel in source.kernels] == ["two_0_kernel", "two_1_kernel"]
    assert [buffer.name for buffer in source.workspace] == ["T"]
    assert "const float* __restrict__ T" in source.text


def test_a_store_predicate_is_a_condition() -> None:
    s, tensors = row_sums(4, 64, 32)
    stage = s[tensors[-1]]
    thread = next(t for t in stage.bindings.values() if t.thread_tag == "threadIdx.x")
    stage.set_store_predicate(thread.var.equal(3))
    text = emit(function_of(s, tensors)).text
    assert "if (tx == 3) {\n    B[bx] = reduce_temp0;\n  }" in text


def test_loops_are_unrolled_where_the_schedule_or_registers_ask_for_it() -> None:
    text = emit(function_of(*matmul())).text
    inner = text[text.index("for (int k_i") :]
    assert "#pragma unroll\n" in inner
    assert "#pragma unroll\n  for (int k_o" not in text


@needs_nvrtc
@pytest.mark.parametrize("arch", slow_names({"sm_80", "sm_100"}, ARCHITECTURES))
@pytest.mark.parametrize("name", ["matmul_cuda", "conv2d_cuda", "broadcast_add_cuda"])
def test_the_benchmarks_structures_compile(name: str, arch: str) -> None:
    task = Task(getattr(structures, name), {}, Target("cuda"))
    for index in task.space.sample(1, np.random.default_rng(1)):
        source = emit(finalise_kernels(task.function(int(index))))
        cubin = compile_cubin(source.text, arch)
        assert list(cubin.kernels) == [kernel.entry for kernel in source.kernels]
        assert "warning" not in cubin.log


def _either(A: Any, i: Any, j: Any) -> Any:
    """Read an element under one condition, and again under another."""
    return te.if_then_else(i > 2, A[i, j], 1.0) + te.if_then_else(i < 5, A[i, j], 2.0)


def _both(A: Any, i: Any, j: Any) -> Any:
    """Read an element under two conditions, of which the outer one may be false for some lanes."""
    above = te.if_then_else(i > 0, A[i - 1, j], 1.0)
    return above + te.if_then_else(j > 1, te.if_then_else(i < 7, A[i + 1, j], 2.0), 3.0)


def _neither(A: Any, i: Any, j: Any) -> Any:
    """Read an element also where a condition is false."""
    return te.if_then_else(i > 2, A[i, j], 1.0) * te.if_then_else(i > 4, 2.0, A[i, j])


@needs_host_compiler
@pytest.mark.parametrize(
    ("element", "conditions"),
    [
        (_either, ["2 < bx || bx < 5"]),
        (_both, ["0 < bx", "0 < bx", "bx < 7"]),  # the first two lanes read nothing below
        (_neither, []),
    ],
)
def test_vectors_under_conditions_are_loaded_where_any_of_these_holds_for_all_lanes(
    element: Any, conditions: list[str], tmp_path: Path
) -> None:
    A = te.placeholder((8, 16), name="A")
    B = te.compute((8, 16), lambda i, j: element(A, i, j), name="B")
    s = te.create_schedule(B.op)
    s[B].vectorize(s[B].split(B.op.axis[1], factor=4)[1])
    s[B].bind(B.op.axis[0], te.thread_axis("blockIdx.x"))
    text = check(s, [A, B], tmp_path).text
    assert re.findall(r"= (.*) \? pack<4>", text) == conditions
