"""Features against a second, plain implementation of their rules: recorded and random loops."""

from __future__ import annotations

import json
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.gpu_schedules import gpu_schedules
from support.itervar_listings import Listing
from support.itervar_rules import program_of, rules
from support.te_programs import programs
from support.te_schedules import scheduled

from autotune import te
from autotune.extract.autotvm08 import autotvm08_loops
from autotune.feature import get_itervar_feature
from autotune.lowering.nest.lower_schedule import lower_schedule
from autotune.schedule.schedule import Schedule
from autotune.te.tensor import Tensor

RECORDED = Path(__file__).parents[1] / "golden" / "itervar_features_autotvm08.json"
ITEMS: dict[str, Any] = {
    item["name"]: item for item in json.loads(RECORDED.read_text())["items"]
}
VIRTUAL = {name for name, item in ITEMS.items() if "virtual_thread" in item["ir_used_for_features"]}


def parameters(recipe: str) -> dict[str, str]:
    tvm = types.SimpleNamespace(te=te, tir=te)
    space: dict[str, Any] = {"tvm": tvm, "te": te, "np": np}
    exec(recipe, space)
    return {tensor.name: tensor.dtype for tensor in space["args"]}


@pytest.mark.parametrize("name", sorted(set(ITEMS) - VIRTUAL))
def test_the_rules_give_the_recorded_rows_for_the_recorded_loops(name: str) -> None:
    item = ITEMS[name]
    listing = Listing(item["ir_used_for_features"], parameters(item["recipe"]))
    found = rules(listing.program())
    assert not listing.ambiguous
    wanted = [
        (
            ("_itervar_", row["itervar"].split(":")[0]),
            ("_attr_", *row["_attr_"]),
            ("_arith_", *row["_arith_"]),
            *map(tuple, row["touch"]),
        )
        for row in item["rows"]
    ]
    assert found == wanted


@st.composite
def concrete(draw: Any) -> tuple[Schedule, list[Tensor]]:
    """A random schedule for a CPU or a GPU, all sizes numbers."""
    if draw(st.booleans()):
        gpu = draw(gpu_schedules())
        return gpu.schedule, gpu.tensors
    program = draw(programs())
    plan = draw(scheduled(program, threads=True))
    assume(not plan.knobs)
    return plan.schedule, [*program.inputs, *program.outputs]


@given(concrete())
@settings(max_examples=25, deadline=None)
def test_the_rules_give_the_rows_of_random_schedules_as_autotvm_would(
    given: tuple[Schedule, list[Tensor]],
) -> None:
    schedule, tensors = given
    found = get_itervar_feature(schedule, tensors, layout="autotvm08")
    assume(all(row[1][1] for row in found))  # nothing divides by the reuse of an empty loop
    # AutoTVM calls all results of an operation as the operation.
    loops = program_of(autotvm08_loops(schedule, tensors).body, lambda n: n.partition(".v")[0])
    assert found == rules(loops)


@given(concrete())
@settings(max_examples=25, deadline=None)
def test_the_rules_give_the_rows_of_random_schedules(
    given: tuple[Schedule, list[Tensor]],
) -> None:
    schedule, tensors = given
    found = get_itervar_feature(schedule, tensors)
    assume(all(row[1][1] for row in found))  # nothing divides by the count of an empty loop
    strides = {
        (number, touch[0]): touch[1] for number, row in enumerate(found) for touch in row[3:]
    }
    program = program_of(lower_schedule(schedule, tensors).body)
    wanted = rules(program, autotvm08=False, stride=lambda row, name, _: strides[row, name])
    without_mod = [
        (*row[:3], *((name, stride, -1, *rest) for name, stride, _, *rest in row[3:]))
        for row in found
    ]
    assert without_mod == wanted
