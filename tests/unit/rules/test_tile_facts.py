"""Tiles of results with few rows, or that no tile divides."""

from __future__ import annotations

import math
from typing import Any

import pytest

from autotune.ir.expr import Call
from autotune.ir.stmt import For, Stmt
from autotune.ir.visitor import stmt_exprs, walk, walk_expr
from autotune.rules.contractions.tile_facts import tile_heights
from autotune.task.task import Task

AVX2 = "llvm -mcpu=x86-64-v3 -threads=2"
AVX512 = "llvm -mcpu=x86-64-v4 -threads=2"


def product(m: int, n: int, k: int, target: str = AVX512) -> Task:
    return Task.from_reference("matmul", {"m": m, "n": n, "k": k}, target)


def default_of(task: Task) -> dict[str, Any]:
    return dict(task.space.config(task.default_index).values)


@pytest.mark.parametrize("size", [*range(1, 80), 1000, 4096])
def test_for_each_height_of_a_tile_there_is_the_lowest_with_as_few_tiles(size: int) -> None:
    heights = tile_heights(size)
    assert len(set(heights)) == len(heights)
    assert max(heights) <= size
    assert all(math.ceil(size / math.ceil(size / height)) in heights for height in heights)
    assert size in heights or size > max(heights)


@pytest.mark.parametrize("rows", [11, 13])
def test_a_few_rows_of_a_prime_number_are_one_tile_that_packs_nothing(rows: int) -> None:
    known = default_of(product(rows, 1009, 997))
    assert (known["tile_rows"], known["pack"]) == (rows, False)


def test_a_tile_of_one_row_is_as_wide_as_the_registers_allow() -> None:
    assert default_of(product(1, 512, 512))["tile_vectors"] == 16
    for target, most in ((AVX2, 12), (AVX512, 16)):
        knobs = {knob.name: knob.values for knob in product(1, 512, 512, target).space.knobs}
        assert max(knobs["tile_vectors"]) == most


def has_choice(stmt: Stmt) -> bool:
    """Whether a statement computes one of two values."""
    nodes = (node for expr in stmt_exprs(stmt) for node in walk_expr(expr))
    return any(isinstance(node, Call) and node.name == "if_then_else" for node in nodes)


def test_ragged_blocks_of_large_tiles_have_no_guards_in_their_sums() -> None:
    """Rows and columns are both ragged, and copies of all loops would be beyond the limit."""
    task = product(37, 100, 64)
    tiles = {"tile_rows": 8, "tile_vectors": 3, "block_rows": 4, "block_columns": 1}
    known = {**default_of(task), **tiles, "unroll": 4}
    known |= {"vector": "axis1", "pack": False, "stream": False}
    final = task.final_of(known).body
    sums = [s for s in walk(final) if isinstance(s, For) and s.var.name.startswith("k.outer")]
    assert any(not any(map(has_choice, walk(loop))) for loop in sums)
