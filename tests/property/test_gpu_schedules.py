"""Random GPU schedules: the program, the interpreter's threads and LLVM's loops agree, no races.

AUTOTUNE_EXAMPLES=5000 runs more examples, with other seeds each time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, note
from support.gpu_schedules import Scheduled, gpu_schedules
from support.te_reference import Reference, random_array
from support.verify import verify
from test_schedules_differential import examples

from autotune.ir.evaluate.interpreter import interpret
from autotune.lowering.finalise import analyse
from autotune.lowering.gpu.finalise_kernels import finalising_kernels
from autotune.lowering.nest.lower_schedule import lower_schedule
from autotune.runtime.cpu.llvm_compiler import compile_function
from autotune.runtime.object_cache import ObjectCache
from autotune.te.tensor import PlaceholderOp


def check(plan: Scheduled) -> None:
    """Run a schedule thread by thread and compiled, and compare both with the program."""
    note(plan.describe())
    analysed = verify(analyse(lower_schedule(plan.schedule, plan.tensors)))
    note(f"analysed:\n{analysed}")
    for final in finalising_kernels(analysed):
        verify(final)
    note(f"final:\n{final}")
    rng = np.random.default_rng(0)
    inputs = {
        tensor: random_array(rng, tensor.shape, tensor.dtype)
        for tensor in plan.tensors
        if isinstance(tensor.op, PlaceholderOp)
    }
    expected = Reference(inputs).array(plan.tensors[-1])
    ways: dict[str, Any] = {
        "thread by thread": lambda *arrays: interpret(final, arrays, races=True),
        "compiled": compile_function(final, "cuda -on=cpu", cache=ObjectCache(None)),
    }
    for how, run in ways.items():
        result = np.full(expected.shape, 77, expected.dtype)
        run(*inputs.values(), result)
        np.testing.assert_array_equal(result, expected, err_msg=how)


@examples(20)
@given(gpu_schedules())
def test_threads_compute_what_the_program_says_in_every_way(plan: Scheduled) -> None:
    check(plan)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@examples(2000)
@given(gpu_schedules())
def test_many_schedules_of_threads_compute_what_the_program_says(plan: Scheduled) -> None:
    check(plan)
