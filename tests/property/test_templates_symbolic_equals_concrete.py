"""Every template of ours: traced and substituted is the template run on the plain values.

Compared are the listing (loop extents, allocation sizes, remaining guards), the features and the
results, for random legal configurations of small sizes, dividing and not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autotune.ir.interpreter import interpret
from autotune.ir.verify import verify
from autotune.lowering.finalise import analyse, finalise
from autotune.lowering.nest import lower_schedule
from autotune.lowering.to_loop_nest import LoopNestPlan
from autotune.runtime.llvm import compile_function
from autotune.task import Task
from autotune.template import Knobs
from autotune.trace.sources import ConcreteValues, KnobTable
from features import itervar_rows
from features.itervar import itervar_matrix

WORKLOADS: list[tuple[str, dict[str, Any]]] = [
    ("broadcast_add", {"n": 64}),
    ("broadcast_add", {"n": 37}),
    ("matmul", {"m": 32, "n": 128, "k": 16}),
    ("matmul", {"m": 17, "n": 35, "k": 7}),
    ("matmul", {"m": 16, "n": 32, "k": 8, "dtype": "float64"}),
    ("softmax", {"m": 9, "n": 256}),
    ("softmax", {"m": 5, "n": 71}),
    ("conv2d_nchw", {"n": 1, "c": 3, "h": 8, "w": 14, "o": 32, "kh": 3, "kw": 3, "pad": 1}),
    ("conv2d_nchw", {"n": 2, "c": 2, "h": 9, "w": 11, "o": 5, "kh": 3, "kw": 2, "stride": 2}),
]
CONFIGS = 12


def run_concretely(task: Task, index: int) -> Any:
    """Lower the template run with the configuration's own numbers, symbols nowhere."""
    table = KnobTable(task.template.name)
    source = ConcreteValues(table, task.space.config(index).values)
    schedule, tensors = task.template.function(Knobs(source, task.target), **task.args)
    return lower_schedule(schedule, tensors)


@pytest.fixture(params=WORKLOADS, ids=lambda w: f"{w[0]}-{'-'.join(map(str, w[1].values()))}")
def task(request: pytest.FixtureRequest) -> Task:
    name, args = request.param
    return Task.from_reference(name, args, "llvm -mcpu=x86-64-v3")


@pytest.fixture
def indices(task: Task) -> list[int]:
    return [int(i) for i in task.space.sample(CONFIGS, np.random.default_rng(7))]


def test_listings_agree(task: Task, indices: list[int]) -> None:
    for index in indices:
        traced = verify(task.function(index))
        concrete = verify(analyse(run_concretely(task, index)))
        assert str(traced) == str(concrete), task.space.config(index)


def test_features_of_the_trace_are_those_of_the_concrete_run(
    task: Task, indices: list[int]
) -> None:
    for index in indices:
        structure = task.structure(index)
        assert structure.function is not None
        plan = LoopNestPlan(structure.function)
        columns = task.space.columns([index])
        names, traced = itervar_matrix(plan.nest(columns), 1)
        concrete_plan = LoopNestPlan(analyse(run_concretely(task, index)))
        concrete_names, concrete = itervar_matrix(concrete_plan.nest(), 1)
        assert names == concrete_names
        np.testing.assert_array_equal(traced, concrete, err_msg=str(task.space.config(index)))
        assert itervar_rows(concrete_plan.nest())


def test_interpreter_and_llvm_give_the_reference(task: Task, indices: list[int]) -> None:
    rng = np.random.default_rng(3)
    inputs = [
        rng.uniform(-1, 1, a.shape).astype(a.dtype) for a in task.arguments if not a.is_output
    ]
    reference = task.reference
    assert reference is not None
    expected = reference(*inputs)
    (output,) = [a for a in task.arguments if a.is_output]
    for index in indices[:4]:
        final = verify(finalise(task.function(index)))
        for run in (lambda *arrays, f=final: interpret(f, arrays), compile_function(final, "llvm")):
            result = np.full(output.shape, np.nan, output.dtype)
            run(*inputs, result)
            np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
