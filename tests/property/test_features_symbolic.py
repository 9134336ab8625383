"""Features of all candidates at once are those of each candidate on its own.

Random programs and schedules with knobs as split factors, remainders and length-1 axes included.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.te_programs import programs
from support.te_schedules import scheduled

from autotune import te
from autotune.errors import AutotuneError
from autotune.extract.to_loop_nest import LoopNestPlan, loop_nest
from autotune.ir.expr import Call, KnobVar, Select
from autotune.ir.stmt import PrimFunc, Store
from autotune.ir.visitor import walk, walk_expr
from autotune.lowering.nest.lower_schedule import lower_schedule
from features import LoopNest, candidate

EXAMPLES = int(os.environ.get("AUTOTUNE_EXAMPLES", "0"))
VALUES = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16)


def has_branches(function: PrimFunc) -> bool:
    """Whether an expression chooses between others, which some knob values may decide."""
    return any(
        isinstance(node, Select) or (isinstance(node, Call) and node.name == "if_then_else")
        for stmt in walk(function.body)
        if isinstance(stmt, Store)
        for node in walk_expr(stmt.value)
    )


def assert_same(batch: LoopNest, single: LoopNest, about: Any) -> None:
    assert batch.loops == single.loops, about
    for one, other in zip(batch.accesses, single.accesses, strict=True):
        assert one == other, about


def check_random_schedule(data: st.DataObject) -> None:
    program = data.draw(programs())
    schedule = data.draw(scheduled(program).filter(lambda s: s.knobs))
    try:
        function = lower_schedule(schedule.schedule, [*program.inputs, *program.outputs])
    except AutotuneError:
        return
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    knobs = list(schedule.knobs)
    columns = {knob.name: rng.choice(VALUES, 8) for knob in knobs}
    nest = LoopNestPlan(function).nest(columns)
    for row in range(8):
        values = {knob: int(columns[knob.name][row]) for knob in knobs}
        single, batch = loop_nest(function, values), candidate(nest, row)
        if [a.name for a in single.accesses] == [a.name for a in batch.accesses]:
            assert_same(batch, single, (values, schedule.describe(), program.describe()))
        else:
            assert has_branches(function)


@given(st.data())
@settings(
    max_examples=EXAMPLES or 20,
    derandomize=not EXAMPLES,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
def test_all_candidates_at_once_are_the_candidates_one_by_one(data: st.DataObject) -> None:
    check_random_schedule(data)


def test_a_fused_loop_over_a_region_that_intervals_cannot_show_to_be_there() -> None:
    """Its extent is at least 1 for every factor, but as an expression it might be less."""
    A = te.placeholder((2, 2, 2), name="A")
    X = te.compute((2, 2), lambda i, j: A[i, i, i] + 1, name="X")
    s = te.create_schedule(X.op)
    cached = s.cache_write(X, "local")
    i, j = s[X].op.axis
    s[cached].compute_at(s[X], i)
    s[cached].split(s[cached].fuse(*s[cached].op.axis), factor=1)
    wide, long = KnobVar("wide", 1, 16), KnobVar("long", 1, 16)
    outer, _ = s[X].split(j, factor=wide)
    s[X].split(outer, factor=long)
    function = lower_schedule(s, [A, X])
    columns = {"wide": np.array([12, 1, 2]), "long": np.array([2, 2, 1])}
    nest = LoopNestPlan(function).nest(columns)
    for row in range(3):
        values = {knob: int(columns[knob.name][row]) for knob in (wide, long)}
        assert_same(candidate(nest, row), loop_nest(function, values), values)


def test_a_clamped_index_less_where_its_buffer_begins_is_none_however_both_are_written() -> None:
    """One product is `knob * outer`, the other `outer * knob`: the same text if the knob is 1."""
    A = te.placeholder((12,), name="A")
    X = te.compute((12, 10), lambda i, j: A[i] + 1, name="X")
    Y = te.compute((12, 10), lambda i, j: X[i, te.max(te.min(i, 9), 0)], name="Y")
    s = te.create_schedule(Y.op)
    knob = KnobVar("factor", 1, 16)
    s[Y].split(s[Y].op.axis[0], factor=knob)
    s[X].compute_at(s[Y], s[Y].op.axis[1])
    function = lower_schedule(s, [A, Y])
    nest = LoopNestPlan(function).nest({"factor": np.array([1, 2, 3])})
    for row in range(3):
        single = loop_nest(function, {knob: row + 1})
        assert_same(candidate(nest, row), single, row + 1)
        (read,) = (one for one in single.accesses if one.buffer == "X" and not one.is_store)
        assert set(read.strides) == {0}
