"""GPU threads as loops on the CPU: what the transformed functions compute, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from support.thread_kernels import (
    KERNELS,
    A,
    Kernel,
    N,
    O,
    allocated,
    blocks,
    copied,
    function,
    here,
    local,
    serial,
    shared,
    thread,
    threads,
)
from support.verify import verify

from autotune.errors import CodegenError
from autotune.ir.evaluate.interpreter import interpret
from autotune.ir.expr import Load, Var
from autotune.ir.ops import cast
from autotune.ir.stmt import Barrier, If, Stmt, seq
from autotune.lowering.gpu.simt_to_loops import simt_on_cpu
from autotune.runtime.cpu.llvm_compiler import compile_function
from autotune.runtime.object_cache import ObjectCache


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_loops_compute_what_threads_compute(kernel: Kernel) -> None:
    program, values, expected = kernel()
    loops = verify(simt_on_cpu(program))
    compiled = compile_function(program, "cuda -on=cpu", cache=ObjectCache(None))
    for run in (lambda *arrays: interpret(loops, arrays), compiled):
        result = np.full(N, 77, np.float32)
        run(values.copy(), result)
        np.testing.assert_array_equal(result, expected)


def refusal(body: Stmt) -> str:
    with pytest.raises(CodegenError) as error:
        simt_on_cpu(function(threads(body)))
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_barrier_under_a_condition_of_the_thread_is_refused() -> None:
    assert refusal(If(thread < 3, Barrier())) == (
        "a barrier stands under the condition `(threadIdx.x < 3)`, which differs between the "
        "threads of a block: all of them must come to it; put the condition around what is "
        "between barriers instead"
    )


def test_a_barrier_in_a_loop_whose_length_differs_is_refused() -> None:
    assert "in loop 'k' of length `(threadIdx.x + 1)`" in refusal(
        serial(Var("k"), thread + 1, Barrier())
    )


def test_a_barrier_under_a_condition_on_what_a_thread_keeps_is_refused() -> None:
    mine = local("mine")
    rounds = cast("int32", Load(mine, cast("int32", thread)))
    body = allocated(seq(copied(mine, 0, A, here), serial(Var("k"), rounds, Barrier())), mine)
    assert "which differs between the threads" in refusal(body)


def test_what_is_kept_across_a_barrier_has_an_element_for_each_thread_and_nothing_else() -> None:
    S, kept, brief = shared(), local("kept"), local("brief")
    body = seq(
        copied(brief, 0, A, here),
        copied(kept, 0, brief, 0),
        copied(S, thread, kept, 0),
        Barrier(),
        copied(O, here, kept, 0),
    )
    text = str(simt_on_cpu(function(blocks(threads(allocated(body, S, kept, brief))))))
    assert "allocate kept[float32 * 8 * 1]" in text
    assert "allocate brief[float32 * 1]" in text
    assert "allocate S[float32 * 8]" in text
    assert "kept[threadIdx.x] = brief[0]" in text
