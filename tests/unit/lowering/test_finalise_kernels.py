"""The final form of functions for GPUs: one nest per kernel, threads that wait where they must."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from support.gpu_cases import bound
from support.te_reference import Reference, convolved, random_array
from support.verify import verify

from autotune import te
from autotune.errors import IRError, LoweringError
from autotune.ir.evaluate.interpreter import interpret
from autotune.ir.stmt import Allocate, Barrier, For, LoopKind, PrimFunc, Seq, Stmt
from autotune.ir.visitor import StmtRewriter, walk
from autotune.lowering.finalise import analyse
from autotune.lowering.gpu.finalise_kernels import (
    finalise_kernels,
    finalising_kernels,
    split_kernels,
    workspace,
)
from autotune.lowering.nest.lower_schedule import lower_schedule
from autotune.schedule.schedule import Schedule
from autotune.target import Target
from autotune.task.task import Task
from autotune.te.tensor import PlaceholderOp, Tensor
from benchmarks import structures


def kernels_of(schedule: Schedule, tensors: Sequence[Tensor]) -> PrimFunc:
    analysed = analyse(lower_schedule(schedule, tensors))
    for function in finalising_kernels(analysed):
        verify(function)
    return function


def assert_right(function: PrimFunc, tensors: Sequence[Tensor]) -> None:
    """Run the kernels and compare with NumPy: no races, and none of the barriers to spare."""
    rng = np.random.default_rng(0)
    given = {
        t: random_array(rng, t.shape, t.dtype) for t in tensors if isinstance(t.op, PlaceholderOp)
    }
    results = {t: np.full(t.shape, 77, t.dtype) for t in tensors if t not in given}
    arrays = [given.get(t, results.get(t)) for t in tensors]
    interpret(function, arrays, races=True)
    reference = Reference(given)
    for tensor, result in results.items():
        np.testing.assert_allclose(result, reference.array(tensor), rtol=1e-5, atol=1e-6)
    for barrier in (stmt for stmt in walk(function.body) if isinstance(stmt, Barrier)):
        fewer = function.with_body(_Without(barrier).stmt(function.body))
        with pytest.raises(IRError, match="with no barrier between"):
            interpret(fewer, arrays, races=True)


class _Without(StmtRewriter):
    def __init__(self, barrier: Stmt) -> None:
        super().__init__()
        self.barrier = barrier

    def visit_Barrier(self, node: Barrier) -> Stmt:
        return Seq(()) if node is self.barrier else node


def barriers(stmt: Stmt) -> int:
    return sum(isinstance(inner, Barrier) for inner in walk(stmt))


def reversed_in_shared(n: int, readers: int) -> tuple[Schedule, list[Tensor]]:
    """B[i] = A[n - 1 - i] by way of shared storage, which `readers` threads read."""
    A = te.placeholder((n,), name="A")
    copy = te.compute((n,), lambda i: A[i] + 0.0, name="S")
    B = te.compute((n,), lambda i: copy[n - 1 - i], name="B")
    s = te.create_schedule(B.op)
    bx = bound(s[B], B.op.axis[0], readers)
    s[copy].set_scope("shared")
    s[copy].compute_at(s[B], bx)
    s[copy].bind(copy.op.axis[0], te.thread_axis("threadIdx.x"))
    return s, [A, B]


def test_the_loops_over_threads_stand_around_all_that_threads_do() -> None:
    function = kernels_of(*reversed_in_shared(16, 8))
    block, shared, thread = walk_down(function.body, 3)
    assert isinstance(block, For)
    assert block.thread_tag == "blockIdx.x"
    assert isinstance(shared, Allocate)
    assert shared.buffer.scope == "shared"
    assert isinstance(thread, For)
    assert thread.thread_tag == "threadIdx.x"
    assert not any(isinstance(s, For) and s.kind is LoopKind.THREAD for s in walk(thread.body))


def walk_down(stmt: Stmt, count: int) -> list[Any]:
    return [inner for _, inner in zip(range(count), walk(stmt), strict=False)]


@pytest.mark.parametrize("readers", [4, 8, 16])
def test_threads_wait_between_writing_and_reading(readers: int) -> None:
    schedule, tensors = reversed_in_shared(16, readers)
    function = kernels_of(schedule, tensors)
    assert barriers(function.body) == 1
    assert_right(function, tensors)


def test_a_stage_that_fewer_threads_compute_is_guarded() -> None:
    A = te.placeholder((4,), name="A")
    twice = te.compute((4,), lambda i: A[i] * 2.0, name="S")
    B = te.compute((16,), lambda i: twice[i % 4], name="B")
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))
    bound(s[twice], twice.op.axis[0], 4)
    function = kernels_of(s, [A, B])
    one, two = split_kernels(function)
    assert [str(extent) for extent in (*one.block, *two.block)] == ["4", "1", "1", "16", "1", "1"]
    assert [one.function.name, two.function.name] == ["main_0", "main_1"]
    assert [buffer.name for buffer in workspace(function)] == ["S"]
    assert [buffer.name for buffer in one.function.params] == ["A", "S"]
    assert [buffer.name for buffer in two.function.params] == ["B", "S"]
    assert_right(function, [A, B])


def test_what_no_thread_is_bound_to_is_left_to_the_first() -> None:
    A = te.placeholder((8,), name="A")
    total = te.compute((8,), lambda i: A[i] + 1.0, name="S")
    B = te.compute((8,), lambda i: total[7 - i], name="B")
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))
    s[total].set_scope("shared")
    s[total].compute_at(s[B], B.op.axis[0])
    function = kernels_of(s, [A, B])
    assert "if ((threadIdx.x == 0)) {" in str(function)
    assert_right(function, [A, B])


@pytest.mark.parametrize("scope", ["local", "shared"])
def test_storage_of_a_kernel_does_not_reach_other_kernels(scope: str) -> None:
    A = te.placeholder((8,), name="A")
    S = te.compute((8,), lambda i: A[i] + 1.0, name="S")
    B = te.compute((8,), lambda i: S[7 - i], name="B")
    s = te.create_schedule(B.op)
    s[S].set_scope(scope)
    with pytest.raises(LoweringError, match=f"'S' is in {scope} storage, which lasts as long as"):
        finalise_kernels(analyse(lower_schedule(s, [A, B])))


@pytest.mark.parametrize(
    ("template", "arguments", "shapes", "reference"),
    [
        (structures.matmul_cuda, {"n": 8}, [(8, 8), (8, 8)], np.matmul),
        (
            structures.conv2d_cuda,
            {"channels": 2, "size": 4, "filters": 4},
            [(1, 2, 4, 4), (4, 2, 3, 3)],
            convolved,
        ),
    ],
)
def test_tiles_in_shared_storage_and_virtual_threads(
    template: Any, arguments: Any, shapes: Any, reference: Any
) -> None:
    task = Task(template, arguments, Target("cuda"))
    rng = np.random.default_rng(5)
    inputs = [random_array(rng, shape, "float32") for shape in shapes]
    wanted = reference(*inputs)
    for index in task.space.sample(4, rng):
        function = verify(finalise_kernels(task.function(int(index))))
        result = np.full(wanted.shape, 77, "float32")
        interpret(function, [*inputs, result], races=True)
        np.testing.assert_allclose(result, wanted, rtol=1e-5, err_msg=str(function))
