"""Random computations without a reference: no schedule's answer is refused.

AUTOTUNE_EXAMPLES=3000 runs more examples of odd programs, with other seeds each time.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from support.benches import answers_bench, built
from support.legal_configurations import default_and_drawn
from support.random_computations import RandomComputation
from support.slow_cases import slow_if
from support.te_programs import Program, programs
from test_rules_programs import task_of as task_of_program
from test_rules_random import task_of as task_of_computation
from test_schedules_differential import examples

from autotune.task.task import Task


def check(task: Task, seed: int, count: int) -> None:
    """Fail if the answers of the default or of drawn configurations are refused."""
    bench = answers_bench(task, seed % 1000)
    assert bench.reference == "unscheduled"
    for index in default_and_drawn(task, count, seed):
        bench.run(built(task, task.space.config(index).values))


@pytest.mark.parametrize("seed", slow_if(lambda seed: seed % 4 or seed > 15, range(200)))
def test_no_schedule_of_a_random_computation_is_refused(seed: int) -> None:
    check(task_of_computation(RandomComputation(seed), "llvm"), seed, 2)


@examples(15)
@given(programs(), st.integers(0, 2**31))
def test_no_schedule_of_an_odd_program_is_refused(program: Program, seed: int) -> None:
    note(program.describe())
    task = task_of_program(program, "llvm")
    with np.errstate(all="ignore"):
        check(task, seed, 1)
