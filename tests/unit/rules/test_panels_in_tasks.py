"""Panels that each task packs for itself: which they are, and that answers are right with them."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from support.contractions import Made, convolution, product, task_of
from support.legal_configurations import assert_right, default_and_drawn, small_integers
from support.slow_cases import slow

from autotune import te
from autotune.task.task import Task


def attached_panels(task: Task, index: int) -> list[str]:
    """Return the panels that each task packs for itself."""
    stages = task.concrete_structure(index).schedule.stages
    panels = [s for s in stages if re.search(r"_[BFW]\d+$", s.op.name)]
    return [s.op.name for s in panels if s.attach_point is not None]


@pytest.mark.parametrize(
    ("m", "n", "k", "constants", "in_tasks"),
    [
        (64, 768, 768, (), True),
        (64, 768, 768, (1,), False),
        (512, 768, 768, (), False),
        (127, 62, 145, (), True),
        (192, 64, 80, (), True),
    ],
    ids=["rows of one task", "constant", "rows of many tasks", "small", "tall"],
)
def test_a_task_packs_what_it_alone_reads(
    m: int, n: int, k: int, constants: tuple[int, ...], in_tasks: bool
) -> None:
    task = task_of(partial(product, m, n, k), constants, "llvm -mcpu=x86-64-v3 -threads=2")
    assert bool(attached_panels(task, task.default_index)) is in_tasks


@pytest.mark.parametrize("threads", [1, 2, 4, 16])
def test_threads_have_about_equal_parts_where_tasks_pack(threads: int) -> None:
    target = f"llvm -mcpu=x86-64-v3 -threads={threads}"
    kinds = set()
    for n in range(16, 800, 48):
        task = task_of(partial(product, 100, n, 300), (), target)
        values = task.space.config(task.default_index).values
        if values["vector"] != "axis1":
            continue
        tasks = -(-n // (8 * values["tile_vectors"]))
        in_tasks = bool(attached_panels(task, task.default_index))
        assert not in_tasks or -(-tasks // threads) * threads <= 1.2 * tasks
        kinds.add(in_tasks)
    assert True in kinds
    assert threads == 1 or False in kinds


@pytest.mark.parametrize(
    "made",
    [
        partial(product, 20, 600, 40),
        partial(product, 23, 517, 70, how="tt"),
        partial(product, 8, 100, 40, b=6),
        partial(product, 61, 126, 45),
        slow(partial(product, 9, 530, 64, dtype="float16")),
        slow(partial(convolution, 1, 80, 5, 5, 300, k=1)),
    ],
    ids=["rows", "transposed", "batches", "small", "float16", "1x1"],
)
def test_panels_that_tasks_pack_are_right(made: Callable[[], Made]) -> None:
    task, (inputs, _, expected) = task_of(made, (), "llvm -threads=2"), made()
    arrays = small_integers(inputs)
    drawn = default_and_drawn(task, 12)
    packed = [index for index in drawn if attached_panels(task, index)]
    assert packed
    assert_right(task, packed[:3], arrays, expected(*arrays))


def chain(count: int, rows: int, size: int) -> Made:
    """Return the product of rows with as many transposed matrices, one after the other."""
    weights = [te.placeholder((size, size), "float32", name=f"W{n}") for n in range(count)]

    def layer(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        r = te.reduce_axis((0, size), name="r")
        return te.compute((rows, size), lambda i, j: te.sum(x[i, r] * w[j, r], axis=r))

    first = te.placeholder((rows, size), "float32", name="A")
    last = functools.reduce(layer, weights, first)

    def expected(a: Any, *matrices: Any) -> Any:
        return functools.reduce(lambda x, w: x @ w.T, matrices, a)

    return [first, *weights], [last], expected


def test_each_contraction_of_a_chain_packs_what_its_tasks_read() -> None:
    task = task_of(partial(chain, 4, 64, 192), (), "llvm -mcpu=x86-64-v3 -threads=2")
    assert len(attached_panels(task, task.default_index)) == 4


def test_a_graph_of_many_contractions_has_a_space() -> None:
    task = task_of(partial(chain, 12, 40, 64))
    assert 1000 < len(task.space) < 2**63
    assert not task.refusal(task.default_index)
