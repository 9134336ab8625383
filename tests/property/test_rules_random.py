"""Random computations through the schedule rules: every configuration computes the right answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.cuda_compiler import needs_nvrtc
from support.legal_configurations import default_and_drawn
from support.random_computations import RandomComputation
from support.slow_cases import slow_if

from autotune import rules
from autotune.builder import BuiltFunction
from autotune.ir.evaluate.interpreter import interpret
from autotune.rules.apply_rules import scheduled_outputs
from autotune.rules.stage_graph import iterations
from autotune.runtime.backends import backend_of
from autotune.target import Target
from autotune.task.task import Task
from autotune.te.tensor import ComputeOp, producers_first
from autotune.template import Template
from autotune.trace.template_knobs import Knobs

SEEDS = range(500)

#: Most iterations of a computation that the interpreter runs.
INTERPRETED = 10**5

CONFIGURATIONS = 2


def task_of(made: RandomComputation, target: str) -> Task:
    def instance(cfg: Knobs) -> Any:
        schedule = rules.schedule(cfg, made.outputs)
        return schedule, [*made.inputs, *scheduled_outputs(schedule, made.outputs)]

    return Task(Template("computation", Target.of(target).kind, instance), {}, target)


def poisoned(made: RandomComputation) -> list[Any]:
    return [np.full_like(array, 77) for array in made.expected()]


def check(seed: int, target: str) -> None:
    made = RandomComputation(seed)
    task = task_of(made, target)
    expected = made.expected()
    assert task.default_index == task.space.default_index, made.description  # rules refuse none
    for index in default_and_drawn(task, CONFIGURATIONS, seed):
        why = f"{made.description}; {task.space.config(index)}"
        results = poisoned(made)
        BuiltFunction(task.final(index), task.target)(*made.arrays, *results)
        for result, value in zip(results, expected, strict=True):
            np.testing.assert_array_equal(result, value, err_msg=why)


def iterations_of(made: RandomComputation) -> int:
    ops = producers_first([tensor.op for tensor in made.outputs])
    return sum(iterations(op.output()) for op in ops if isinstance(op, ComputeOp))


def check_interpreted(seed: int) -> None:
    made = RandomComputation(seed)
    if iterations_of(made) > INTERPRETED:
        return
    task = task_of(made, "llvm")
    results = poisoned(made)
    *_, index = default_and_drawn(task, CONFIGURATIONS, seed)
    interpret(task.final(index), [*made.arrays, *results])
    for result, value in zip(results, made.expected(), strict=True):
        np.testing.assert_array_equal(result, value, err_msg=made.description)


def compile_for_gpu(seed: int) -> None:
    task = task_of(RandomComputation(seed), "cuda -arch=sm_90")
    for index in default_and_drawn(task, 1, seed):
        backend_of(task.target).compile_binary(task.final(index), task.target)


def test_a_sum_whose_factors_are_both_computed_and_of_which_one_is_packed_is_scheduled() -> None:
    check(1044, "llvm")


@pytest.mark.parametrize("seed", slow_if(lambda seed: seed % 2 or seed > 11, SEEDS))
def test_random_computations_are_right_on_cpus(seed: int) -> None:
    check(seed, "llvm")


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_random_computations_are_right_when_interpreted(seed: int) -> None:
    check_interpreted(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_random_computations_are_right_with_threads_of_gpus(seed: int) -> None:
    check(seed, "cuda -arch=sm_90 -on=cpu")


@needs_nvrtc
@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_random_computations_compile_for_gpus(seed: int) -> None:
    compile_for_gpu(seed)
