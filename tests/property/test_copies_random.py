"""Configurations that count as the same program have the same code in the end.

Compared are configurations that differ in one or two knobs, of our templates and of random
computations through the schedule rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest
from support.random_computations import RandomComputation
from support.slow_cases import every

from autotune import rules
from autotune.rules.apply_rules import scheduled_outputs
from autotune.target import Target
from autotune.task.copies import Copies
from autotune.task.task import Task, code_hash
from autotune.template import Knobs, Template

WORKLOADS: list[tuple[str, dict[str, Any], str]] = [
    ("softmax", {"m": 256, "n": 4096}, "llvm -threads=2"),
    ("attention", {"b": 1, "heads": 2, "s": 128, "d": 16, "causal": True}, "llvm"),
    ("cumsum", {"m": 19, "n": 64}, "llvm"),
    ("cumsum", {"m": 64, "n": 70}, "cuda -arch=sm_90"),
    ("layer_norm", {"m": 16, "n": 512}, "llvm"),
    ("lstm_cell", {"steps": 3, "batch": 5, "units": 19}, "llvm"),
    ("matmul", {"m": 17, "n": 40, "k": 12}, "llvm -threads=4"),
    ("matmul", {"m": [4, 33], "n": 64, "k": 32}, "llvm"),
]


def pairs(task: Task, count: int, rng: np.random.Generator) -> Iterator[tuple[int, int]]:
    """Yield pairs of legal configurations that count as the same program."""
    space = task.space
    for index in map(int, space.sample(count if space.knobs else 0, rng)):
        copies, values = Copies(task), dict(space.config(index).values)
        if task.refusal(index):
            continue
        copies.original_of(index)
        for changed in (1, 1, 1, 2):
            other = dict(values)
            for number in rng.integers(len(space.knobs), size=changed):
                knob = space.knobs[number]
                other[knob.name] = knob.value(int(rng.integers(len(knob))))
            near = space.index_of(other)
            legal = near != index and not task.refusal(near)
            if legal and copies.original_of(near) is not None:
                yield near, copies.original_of(near)


def check(task: Task, count: int, seed: int) -> int:
    found = list(islice(pairs(task, 60, np.random.default_rng(seed)), count))
    for copy, original in found:
        hashes = [code_hash(task.final(index)) for index in (copy, original)]
        assert hashes[0] == hashes[1], (task.space.config(copy), task.space.config(original))
    return len(found)


@pytest.mark.parametrize("workload", WORKLOADS, ids=str)
def test_copies_of_our_templates_have_the_code_of_the_original(workload) -> None:
    name, args, target = workload
    assert check(Task.from_reference(name, args, target), 6, 0) > 0


@pytest.mark.parametrize("seed", every(4, range(200)))
def test_copies_of_random_computations_have_the_code_of_the_original(seed: int) -> None:
    made = RandomComputation(seed)

    def instance(cfg: Knobs) -> Any:
        schedule = rules.schedule(cfg, made.outputs)
        return schedule, [*made.inputs, *scheduled_outputs(schedule, made.outputs)]

    for target in ("llvm", "cuda -arch=sm_90"):
        template = Template("computation", Target.of(target).kind, instance)
        check(Task(template, {}, target), 5, seed)
