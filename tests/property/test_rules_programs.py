"""Odd programs through the schedule rules: casts, gathers, paddings, no elements, several outputs.

They are smaller than those of `test_rules_random.py`, and stranger.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from support.te_programs import Program, programs
from support.te_reference import TOLERANCE, Reference, close, random_array
from test_schedules_differential import examples

from autotune import rules
from autotune.builder import BuiltFunction
from autotune.rules.apply_rules import scheduled_outputs
from autotune.target import Target
from autotune.task.task import Task
from autotune.template import Template
from autotune.trace.template_knobs import Knobs


def task_of(program: Program, target: str) -> Task:
    def instance(cfg: Knobs) -> Any:
        schedule = rules.schedule(cfg, program.outputs)
        return schedule, [*program.inputs, *scheduled_outputs(schedule, program.outputs)]

    return Task(Template("program", Target.of(target).kind, instance), {}, target)


@pytest.mark.parametrize("target", ["llvm", "cuda -arch=sm_90 -on=cpu"])
def test_rules_compute_what_numpy_computes(target: str) -> None:
    @examples(15)
    @given(programs(), st.integers(0, 2**31))
    def check(program: Program, seed: int) -> None:
        note(program.describe())
        rng = np.random.default_rng(seed)
        arrays = {t: random_array(rng, t.shape, t.dtype) for t in program.inputs}
        with np.errstate(all="ignore"):
            reference = Reference(arrays)
            expected = [reference.array(t) for t in program.outputs]
        every = [*program.inputs, *program.stages]
        tolerance = max((TOLERANCE.get(t.dtype, 0.0) for t in every), default=0.0)
        task = task_of(program, target)
        drawn = int(rng.integers(len(task.space)))
        for index in {task.default_index, *([] if task.refusal(drawn) else [drawn])}:
            results = [np.full(e.shape, 77, e.dtype) for e in expected]
            built = BuiltFunction(task.final(index), task.target)
            built(*(arrays[t].copy() for t in program.inputs), *results)
            for tensor, got, want in zip(program.outputs, results, expected, strict=True):
                assert close(got, want, tolerance), f"{tensor.name} of {task.space.config(index)}"

    check()
