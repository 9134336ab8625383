"""Random GPU schedules: none of their barriers is to spare, and their CUDA sources compute."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, note
from support.cuda_on_host import run_on_host
from support.gpu_schedules import Scheduled, gpu_schedules
from support.host_cuda import needs_host_compiler
from support.te_reference import Reference, random_array
from test_schedules_differential import examples

from autotune.codegen.cuda.cuda_source import emit
from autotune.errors import IRError
from autotune.ir.evaluate.interpreter import interpret
from autotune.ir.stmt import Barrier, PrimFunc, Seq, Stmt
from autotune.ir.visitor import StmtRewriter, walk
from autotune.lowering.finalise import analyse
from autotune.lowering.gpu.finalise_kernels import finalise_kernels
from autotune.lowering.nest.lower_schedule import lower_schedule
from autotune.te.tensor import PlaceholderOp, Tensor


def final_of(plan: Scheduled) -> PrimFunc:
    note(plan.describe())
    final = finalise_kernels(analyse(lower_schedule(plan.schedule, plan.tensors)))
    note(f"final:\n{final}")
    return final


def inputs_of(plan: Scheduled) -> dict[Tensor, Any]:
    rng = np.random.default_rng(0)
    placeholders = [t for t in plan.tensors if isinstance(t.op, PlaceholderOp)]
    return {t: random_array(rng, t.shape, t.dtype) for t in placeholders}


class _Without(StmtRewriter):
    def __init__(self, barrier: Stmt) -> None:
        super().__init__()
        self.barrier = barrier

    def visit_Barrier(self, node: Barrier) -> Stmt:
        return Seq(()) if node is self.barrier else node


@examples(12)
@given(gpu_schedules())
def test_without_any_of_the_barriers_threads_race(plan: Scheduled) -> None:
    final, inputs, out = final_of(plan), inputs_of(plan), plan.tensors[-1]
    result = np.zeros(out.shape, out.dtype)
    interpret(final, [*inputs.values(), result], races=True)
    for barrier in (stmt for stmt in walk(final.body) if isinstance(stmt, Barrier)):
        fewer = final.with_body(_Without(barrier).stmt(final.body))
        with pytest.raises(IRError, match="with no barrier between"):
            interpret(fewer, [*inputs.values(), result], races=True)


def check_source(plan: Scheduled, folder: Path) -> None:
    final, inputs, out = final_of(plan), inputs_of(plan), plan.tensors[-1]
    source = emit(final)
    note(source.text)
    result = np.full(out.shape, 77, out.dtype)
    run_on_host(source, final.params, [*inputs.values(), result], folder)
    np.testing.assert_array_equal(result, Reference(inputs).array(out))


@needs_host_compiler
@examples(3)
@given(plan=gpu_schedules())
def test_sources_compute_what_the_program_says(plan: Scheduled, tmp_path: Path) -> None:
    check_source(plan, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@needs_host_compiler
@examples(500)
@given(plan=gpu_schedules())
def test_many_sources_compute_what_the_program_says(plan: Scheduled, tmp_path: Path) -> None:
    check_source(plan, tmp_path)
