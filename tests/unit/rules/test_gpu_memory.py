"""How kernels for GPUs read memory: side by side, once, and without conflicts of banks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from support.benches import answers_bench, built

from autotune.codegen.cuda.cuda_source import emit
from autotune.ir.dtypes import numpy_dtype
from autotune.ir.evaluate.interpreter import evaluate, interpret
from autotune.ir.expr import Const, Load, Ramp
from autotune.ir.stmt import For
from autotune.ir.visitor import free_vars, stmt_exprs, substitute, walk, walk_expr
from autotune.lowering.gpu.finalise_kernels import split_kernels
from autotune.task.task import Task
from benchmarks.warp_addresses import worst_conflict


def task_of(name: str, args: dict[str, Any], on_cpu: bool = False) -> Task:
    return Task.from_reference(name, args, f"cuda -arch=sm_90{' -on=cpu' * on_cpu}")


@pytest.mark.parametrize("m", [1, 3])
def test_a_large_matrix_is_read_along_its_rows_whatever_it_is_multiplied_by(m: int) -> None:
    args = {"m": m, "n": 1100, "k": 1000}
    function = task_of("matmul", args).final_of({})
    assert ("B1_shared" in emit(function).text) == (m > 1)  # in tiles, which are read once
    first = split_kernels(function)[0]
    (side,) = {
        loop.var
        for loop in walk(first.function.body)
        if isinstance(loop, For) and loop.thread_tag == "threadIdx.x"
    }
    loads = [
        load.index
        for stmt in walk(first.function.body)
        for expr in stmt_exprs(stmt)
        for load in walk_expr(expr)
        if isinstance(load, Load) and load.buffer.name == "B"
    ]
    assert loads
    for index in loads if m == 1 else ():  # by threads side by side, in whole vectors
        assert isinstance(index, Ramp)
        others = {v: Const(0, v.dtype) for v in free_vars(index) if v is not side}
        place = substitute(index.base, others)
        assert set(np.diff([evaluate(place, {side: n}) for n in range(2)])) == {index.lanes} == {4}
    task = task_of("matmul", args, on_cpu=True)
    measured = answers_bench(task).run(built(task, {}))
    assert measured.max_error is not None


def test_sums_of_pieces_of_a_row_are_computed_by_threads_side_by_side() -> None:
    first = split_kernels(task_of("cumsum", {"m": 2, "n": 40_000, "axis": 1}).final_of({}))[0]
    blocks = math.prod(int(n.value) for n in first.grid if isinstance(n, Const))
    assert blocks == 2 * -(-40_000 // 4096)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("attention", {"b": 1, "heads": 8, "s": 256, "d": 64}),
        ("attention", {"b": 1, "heads": 8, "s": 256, "d": 64, "dtype": "float16"}),
        ("transpose", {"m": 130, "n": 37, "dtype": "int8"}),
        ("transpose", {"m": 99, "n": 55, "dtype": "float16"}),
        ("transpose", {"m": 67, "n": 133, "dtype": "float64"}),
        ("transpose", {"m": 67, "n": 133}),
        ("cumsum", {"m": 64, "n": 100_000, "axis": 1}),
    ],
)
def test_threads_meet_in_no_bank_of_shared_memory(name: str, args: dict[str, Any]) -> None:
    kernels = split_kernels(task_of(name, args).final_of({}))
    assert {worst_conflict(kernel) for kernel in kernels} == {1.0}


@pytest.mark.parametrize("stride", [1, 2])
def test_windows_of_one_element_are_loaded_in_whole_vectors_where_they_are_adjacent(
    stride: int,
) -> None:
    args = {"n": 1, "c": 64, "h": 56, "w": 56, "o": 64, "kh": 1, "kw": 1, "stride": stride}
    text = emit(task_of("conv2d_nchw", args).final_of({})).text
    assert ("pack<4>(&D[" in text) == (stride == 1)


@pytest.mark.parametrize(("n", "is_padded"), [(133, True), (132, False)])
def test_tiles_of_single_elements_are_padded_and_those_of_vectors_are_not(
    n: int, is_padded: bool
) -> None:
    text = emit(task_of("transpose", {"m": 68, "n": n}).final_of({})).text
    assert ("bitwise_xor" in text) != is_padded


@pytest.mark.parametrize(("m", "n"), [(3, 131), (2, 257), (4, 1), (2, 3)])
@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("cumsum", {"axis": 1}),
        ("cumsum", {"axis": 1, "dtype": "float64"}),
        ("reduce", {"axis": 1}),
        ("reduce", {"axis": 0, "dtype": "float16"}),
        ("softmax", {"dtype": "float16"}),
        ("layer_norm", {}),
    ],
)
def test_vectors_that_begin_in_the_row_before_touch_nothing_outside_of_the_arrays(
    name: str, own: dict[str, Any], m: int, n: int
) -> None:
    task = task_of(name, {"m": m, "n": n, **own}, on_cpu=True)
    for index in {task.default_index, *task.space.sample(1, np.random.default_rng(0)).tolist()}:
        if task.refusal(index):
            continue
        final = task.final(index)
        arrays = [
            np.ones([int(extent.value) for extent in buffer.shape], numpy_dtype(buffer.dtype))
            for buffer in final.params
        ]
        interpret(final, arrays)  # which raises an error where an access is outside
