"""Replayed steps make the schedule they were taken from: random schedules, and every template."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from support.te_programs import programs
from support.te_schedules import scheduled

from autotune import te
from autotune.lowering.nest.lower_schedule import lower_schedule
from autotune.task.task import Task
from autotune.template import Knobs
from autotune.trace.value_sources import ConcreteValues, KnobTable

WORKLOADS: list[tuple[str, dict[str, Any]]] = [
    ("broadcast_add", {"n": 37}),
    ("matmul", {"m": 17, "n": 35, "k": 7}),
    ("matmul", {"m": 32, "n": 128, "k": 16}),
    ("softmax", {"m": 5, "n": 71}),
    ("conv2d_nchw", {"n": 1, "c": 3, "h": 8, "w": 14, "o": 32, "kh": 3, "kw": 3, "pad": 1}),
]


def stored(steps: list[Any]) -> list[Any]:
    """Return steps as they are after a log was written and read."""
    data: list[Any] = json.loads(json.dumps(steps))
    return data


@given(st.data())
@settings(
    max_examples=30, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck)
)
def test_replaying_the_steps_of_a_random_schedule_gives_the_same_loops(data: Any) -> None:
    program = data.draw(programs())
    plan = data.draw(scheduled(program, threads=True))
    note(plan.describe())
    steps = plan.schedule.to_json({knob.name: value for knob, value in plan.knobs.items()})
    again = te.create_schedule([t.op for t in program.outputs], steps=stored(steps))
    assert again.to_json() == steps
    tensors = [*program.inputs, *program.outputs]
    loops = str(lower_schedule(again, tensors))
    if not plan.knobs:
        assert again.steps == plan.schedule.steps
        assert loops == str(lower_schedule(plan.schedule, tensors))


@pytest.mark.parametrize(("template", "args"), WORKLOADS)
def test_the_steps_of_a_traced_template_replay_on_its_computation(
    template: str, args: dict[str, Any]
) -> None:
    task = Task.from_reference(template, args, "llvm -mcpu=x86-64-v3")
    for index in task.space.sample(4, np.random.default_rng(3)).tolist():
        source = ConcreteValues(KnobTable(template), task.space.config(index).values)
        schedule, tensors = task.template(Knobs(source, task.target), **task.args)
        steps = task.steps_of(index)
        assert steps == schedule.to_json()
        again = te.create_schedule(schedule.outputs, steps=stored(steps))
        assert str(lower_schedule(again, tensors)) == str(lower_schedule(schedule, tensors))
