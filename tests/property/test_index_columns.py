"""Strides of many candidates at once are those of each candidate's own simplified index."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.ir.expr import Binary, Expr, Knob, Var
from autotune.ir.ops import binary, const
from autotune.lowering.index_columns import touch_columns
from autotune.lowering.index_table import IndexTable
from autotune.lowering.strides import ABSENT

EXAMPLES = int(os.environ.get("AUTOTUNE_EXAMPLES", "150"))
ROWS = 40
KNOBS = [Knob(name, 1, 12) for name in ("p", "q", "r")]
VARS = [Var(name, "int32") for name in ("i", "j", "k", "l")]


def sizes() -> st.SearchStrategy[Expr]:
    """Expressions over knobs that are at least 1."""
    one = st.one_of(st.sampled_from(KNOBS), st.integers(1, 8).map(const))
    return st.recursive(
        one,
        lambda inner: st.builds(
            binary, st.sampled_from(["*", "+", "min", "max"]), inner, inner
        ),
        max_leaves=3,
    )


def indices() -> st.SearchStrategy[Expr]:
    def grown(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        return st.one_of(
            st.builds(binary, st.sampled_from(["+", "+", "+", "-"]), inner, inner),
            st.builds(binary, st.just("*"), inner, sizes()),
            st.builds(binary, st.sampled_from(["//", "%"]), inner, sizes()),
            st.builds(binary, st.sampled_from(["min", "max"]), inner, inner),
        )

    return st.recursive(st.one_of(st.sampled_from(VARS), sizes()), grown, max_leaves=10)


def tiled() -> st.SearchStrategy[Expr]:
    """A fused position over tiles, taken apart again: what fetching together leaves."""

    def index(scales: list[Expr], edges: list[Expr], weights: list[Expr]) -> Expr:
        position: Expr = VARS[0]
        for var, scale in zip(VARS[1:], scales, strict=True):
            position = position * scale + var
        rows = position // edges[0]
        found: Any = (rows // edges[1]) * weights[0]
        found = found + (rows % edges[1]) * weights[1]
        return found + position % edges[0] * weights[2]

    three = st.lists(sizes(), min_size=3, max_size=3)
    return st.builds(index, three, st.lists(sizes(), min_size=2, max_size=2), three)


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    st.one_of(indices(), tiled()),
    st.lists(sizes(), min_size=len(VARS), max_size=len(VARS)),
    st.integers(0, 2**32 - 1),
)
def test_touches_of_a_batch_are_those_of_each_candidate(
    index: Expr, extents: list[Expr], seed: int
) -> None:
    loops = list(zip(VARS, extents, strict=True))
    table = IndexTable(index, loops)
    rng = np.random.default_rng(seed)
    columns = {knob.name: rng.integers(1, 13, ROWS) for knob in KNOBS}
    numbers, hard = touch_columns(index, loops, columns, ROWS)
    for row in np.setdiff1d(np.arange(ROWS), hard):
        touches = table.touches_at(tuple(int(columns[k.name][row]) for k in table.knobs))
        wanted = [x for var, _ in loops for x in touches.get(var, ABSENT)]
        assert numbers[row].tolist() == wanted, (str(index), row)


def test_few_rows_are_left_to_be_worked_out_one_by_one() -> None:
    p, q, _ = KNOBS
    i, j, _, _ = VARS
    product = Binary("*", i + p, j % q)
    columns = {knob.name: np.array([1, 2, 3]) for knob in KNOBS}
    numbers, hard = touch_columns(product, [(i, const(4)), (j, const(1))], columns, 3)
    assert hard.tolist() == []
    assert numbers.tolist() == [[0, -1, 0, -1]] * 3
    assert touch_columns(product, [(i, const(4)), (j, const(8))], columns, 3)[1].tolist() == [1, 2]
