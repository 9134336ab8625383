"""Several records of a task, the best first."""

from __future__ import annotations

from dataclasses import replace

from support.measured import measured

from autotune.reuse import choices, choose
from autotune.task.task import Task


def test_the_best_records_have_a_configuration_each():
    task = Task.from_reference("matmul", {"m": 8, "n": 16, "k": 4}, "llvm")
    first, second, third, *_ = (int(n) for n in task.space.feasible_indices())
    fast = measured(task, first, 1e-3)
    again, slower = replace(fast, costs_s=(1.5e-3,)), measured(task, second, 2e-3)
    records = [measured(task, third, 3e-3), slower, again, fast]
    for most, expected in ((1, [fast]), (2, [fast, slower]), (9, [fast, slower, records[0]])):
        assert [one.record for one in choices(task, records, most)] == expected
    assert choose(task, records) == choices(task, records, 1)[0]
    assert choices(task, [], 3) == []
