"""Templates of ours and of the tests: traced and substituted is run on the plain values.

Compared are listings (loop extents, allocation sizes, remaining guards), code, features and
results, for random legal configurations of small sizes: dividing, prime and 1.
`AUTOTUNE_EXAMPLES=1300` compares 1,050 (template, configuration) pairs: some spaces are small.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.processors import AVX2, HAS_AVX2
from support.slow_cases import slow
from support.verify import verify
from support.written_loops import conditions

from autotune.extract.to_loop_nest import LoopNestPlan
from autotune.ir.evaluate.interpreter import interpret
from autotune.ir.stmt import Allocate, For, PrimFunc
from autotune.ir.visitor import walk
from autotune.lowering.finalise import analyse, finalise
from autotune.lowering.nest.lower_schedule import lower_schedule
from autotune.runtime.cpu.llvm_compiler import compile_function
from autotune.runtime.object_cache import ObjectCache
from autotune.task.task import Task
from autotune.template import Knobs
from autotune.trace.fingerprint import code_hash
from autotune.trace.value_sources import ConcreteValues, KnobTable
from features import itervar_rows
from features.itervar import itervar_matrix

OWN = f"{Path(__file__).parents[1] / 'support' / 'structure_templates.py'}:"
WORKLOADS: list[tuple[str, dict[str, Any]]] = [
    ("broadcast_add", {"n": 64}),
    ("broadcast_add", {"n": 37}),
    ("broadcast_add", {"n": 1}),
    ("matmul", {"m": 32, "n": 128, "k": 16}),
    ("matmul", {"m": 17, "n": 35, "k": 7}),
    ("matmul", {"m": 1, "n": 13, "k": 1}),
    ("matmul", {"m": 16, "n": 32, "k": 8, "dtype": "float64"}),
    ("softmax", {"m": 9, "n": 256}),
    ("softmax", {"m": 5, "n": 71}),
    ("softmax", {"m": 1, "n": 1}),
    ("conv2d_nchw", {"n": 1, "c": 3, "h": 8, "w": 14, "o": 32, "kh": 3, "kw": 3, "pad": 1}),
    ("conv2d_nchw", {"n": 2, "c": 2, "h": 9, "w": 11, "o": 5, "kh": 3, "kw": 2, "stride": 2}),
    ("conv2d_nchw", {"n": 1, "c": 1, "h": 7, "w": 1, "o": 8, "kh": 1, "kw": 1}),
    (f"{OWN}packed_fused", {"m": 6, "n": 16, "k": 4}),
    (f"{OWN}packed_fused", {"m": 7, "n": 13, "k": 5}),
    (f"{OWN}packed_fused", {"m": 1, "n": 5, "k": 1}),
    (f"{OWN}fused_blur", {"h": 8, "w": 8}),
    (f"{OWN}fused_blur", {"h": 7, "w": 11}),
    (f"{OWN}fused_blur", {"h": 1, "w": 1}),
    (f"{OWN}factored_rows", {"m": 4, "n": 6, "p": 4}),
    (f"{OWN}factored_rows", {"m": 7, "n": 5, "p": 3}),
    (f"{OWN}argmax_rows", {"m": 4, "n": 28}),
    (f"{OWN}argmax_rows", {"m": 5, "n": 11}),
    ("cumsum", {"m": 37, "n": 70}),
    ("cumsum", {"m": 19, "n": 192}),
    ("cumsum", {"m": 1, "n": 1, "dtype": "int32"}),
    ("cumsum", {"m": 3, "n": 300, "axis": 1}),
    ("linear_recurrence", {"m": 35, "n": 9}),
    ("rnn_cell", {"steps": 1, "batch": 3, "units": 5}),
    ("lstm_cell", {"steps": 3, "batch": 5, "units": 19}),
]
PAIRS = int(os.environ.get("AUTOTUNE_EXAMPLES", "0")) or 4 * len(WORKLOADS)
CONFIGS = -(-PAIRS // len(WORKLOADS))
TARGET = f"llvm -mcpu={AVX2}" if HAS_AVX2 else "llvm"


def run_concretely(task: Task, index: int) -> Any:
    """Lower the template run with the configuration's own numbers, symbols nowhere."""
    table = KnobTable(task.template.name)
    source = ConcreteValues(table, task.space.config(index).values)
    schedule, tensors = task.template(Knobs(source, task.target), **task.args)
    return lower_schedule(schedule, tensors)


def named(workload: tuple[str, dict[str, Any]]) -> str:
    name, args = workload
    return f"{name.removeprefix(OWN)}-{'-'.join(map(str, args.values()))}"


#: Numbers of workloads that are left to the slow tests: others differ from them in a size or type.
ALIKE = {0, 3, 6, 7, 10, 13, 16, 19, 21, 24}


@pytest.fixture(
    scope="module",
    params=[slow((each,)) if number in ALIKE else each for number, each in enumerate(WORKLOADS)],
    ids=named,
)
def task(request: pytest.FixtureRequest) -> Task:
    name, args = request.param
    return Task.from_reference(name, args, TARGET)


@pytest.fixture(scope="module")
def indices(task: Task) -> list[int]:
    return [int(i) for i in task.space.sample(CONFIGS, np.random.default_rng(7))]


def extents(function: PrimFunc) -> list[str]:
    """Extents of loops and sizes of allocations, in order."""
    found = []
    for stmt in walk(function.body):
        if isinstance(stmt, For):
            found.append(f"{stmt.kind} {stmt.var.name} {stmt.extent}")
        elif isinstance(stmt, Allocate):
            found.append(f"{stmt.buffer.name} {' * '.join(map(str, stmt.buffer.shape))}")
    return found


def test_listings_and_code_agree(task: Task, indices: list[int]) -> None:
    for index in indices:
        about = task.space.config(index)
        traced = verify(task.function(index))
        concrete = verify(analyse(run_concretely(task, index)))
        assert extents(traced) == extents(concrete), about
        assert conditions(traced) == conditions(concrete), about
        assert str(traced) == str(concrete), about
        assert code_hash(finalise(traced)) == code_hash(finalise(concrete)), about


def test_features_of_the_trace_are_those_of_the_concrete_run(
    task: Task, indices: list[int]
) -> None:
    plans: dict[Any, LoopNestPlan] = {}
    for index in indices:
        structure = task.structure(index)
        assert structure.function is not None
        plan = plans.get(structure)
        if plan is None:
            plan = plans[structure] = LoopNestPlan(structure.function)
        names, traced = itervar_matrix(plan.nest(task.space.columns([index])), 1)
        concrete_plan = LoopNestPlan(run_concretely(task, index))
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
    wanted = expected if isinstance(expected, tuple) else (expected,)
    for index in indices if "AUTOTUNE_EXAMPLES" in os.environ else indices[:2]:
        final = verify(finalise(task.function(index)))
        compiled = compile_function(final, TARGET, cache=ObjectCache(None))
        for run in (lambda *arrays, f=final: interpret(f, arrays), compiled):
            results = [np.full_like(want, 99) for want in wanted]
            run(*inputs, *results)
            for result, want in zip(results, wanted, strict=True):
                np.testing.assert_allclose(result, want, rtol=1e-4, atol=1e-5)
