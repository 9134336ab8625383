"""Configurations of records become kernels for all sizes."""

from __future__ import annotations

from functools import partial

from support.measured import measured

from autotune.operators.template_lookup import find_template
from autotune.reuse.policy import ReusePolicy
from autotune.shape_dispatch.candidates import candidates_of, tuned_shapes
from autotune.task.task import Task
from records.groups import RecordList

MATMUL = find_template("matmul", "llvm")


def shapes_of(records):
    task_of = partial(Task, MATMUL, target="llvm")
    return tuned_shapes(MATMUL, task_of, {}, RecordList(records), ReusePolicy(), print)


def test_configurations_that_are_nearly_the_best_are_tried_too():
    task = Task(MATMUL, {"m": 8, "n": 16, "k": 4}, "llvm")
    best, near, far, *_ = (int(n) for n in task.space.feasible_indices())
    times = ((far, 2e-3), (near, 1.2e-3), (best, 1e-3), (best, 1.1e-3))
    (shape,) = shapes_of([measured(task, index, seconds) for index, seconds in times])
    values = [dict(task.space.config(index).values) for index in (best, near)]
    assert shape.config == values[0]
    assert shape.next_best == (values[1],)
    (made,) = candidates_of([shape], ("m",))
    assert [candidate.config for candidate in made] == [values[0], {}, values[1]]
    assert all(candidate.open_sizes == ("m",) for candidate in made)
