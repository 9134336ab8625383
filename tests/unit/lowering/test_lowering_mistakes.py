"""What is refused where schedules are made and lowered, and in what words."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.mistakes import Program, assert_refused, lower_schedule_of, refused

import autotune
from autotune import te
from autotune.errors import AutotuneError, LoweringError
from autotune.lowering.nest.lower_schedule import lower_schedule

MISTAKES = [
    refused(
        "schedule a placeholder",
        lambda p: te.create_schedule(p.A.op),
        "create_schedule: <PlaceholderOp A> is not an operation to compute; give some, as in "
        "create_schedule(C.op)",
    ),
    refused(
        "schedule a tensor",
        lambda p: te.create_schedule(p.D),
        "create_schedule: <tensor D: float32 [8]> is not an operation to compute; give some, as in "
        "create_schedule(C.op)",
    ),
    refused(
        "schedule nothing",
        lambda p: te.create_schedule([]),
        "create_schedule: no operation is given; give some, as in create_schedule(C.op)",
    ),
    refused(
        "schedule by the steps of a record that has none",
        lambda p: te.create_schedule(p.D.op, steps=None),
        "create_schedule: steps are a list, not None; give what to_json returned",
    ),
    refused(
        "a tensor of another program",
        lambda p: p.s[te.placeholder((3,), name="Z")],
        "'Z' is not a stage of this schedule; it has: A, B, C, D",
    ),
    refused(
        "a stage by its name",
        lambda p: p.s["B"],
        "'B' is not a stage of this schedule; it has: A, B, C, D",
    ),
    refused(
        "lower without an input",
        lambda p: lower_schedule_of(p.s, p.D),
        "placeholder 'A' is missing from the list of tensors; add it",
        LoweringError,
    ),
    refused(
        "lower without an output",
        lambda p: lower_schedule_of(p.s, p.A),
        "output 'D' is missing from the list of tensors; add it",
        LoweringError,
    ),
    refused(
        "lower with a tensor twice",
        lambda p: lower_schedule_of(p.s, p.A, p.A, p.D),
        "tensor 'A' is listed twice; list it once",
        LoweringError,
    ),
    refused(
        "lower with an intermediate result",
        lambda p: lower_schedule_of(p.s, p.A, p.C, p.D),
        "tensor 'C' is an intermediate result; give its operation to create_schedule too if it "
        "shall be returned",
        LoweringError,
    ),
    refused(
        "lower with a foreign tensor",
        lambda p: lower_schedule_of(p.s, p.A, te.compute((3,), lambda i: p.A[i, 0], name="X"), p.D),
        "'X' is not a stage of this schedule; it has: A, B, C, D",
    ),
    refused(
        "lower with an operation",
        lambda p: lower_schedule(p.s, [p.A, p.D.op]),
        "lower: expected a list of tensors, got [<tensor A: float32 [8, 6]>, <ComputeOp D>]; give "
        "inputs, then outputs, as in [A, B]",
        LoweringError,
    ),
    refused(
        "lower with a single tensor",
        lambda p: lower_schedule(p.s, p.D),
        "lower: expected a list of tensors, got <tensor D: float32 [8]>; give inputs, then "
        "outputs, as in [A, B]",
        LoweringError,
    ),
    refused(
        "lower a tensor",
        lambda p: autotune.lower(p.D, [p.A, p.D]),
        "lower: expected a schedule first, got <tensor D: float32 [8]>; make one with "
        "te.create_schedule",
        LoweringError,
    ),
]


@pytest.mark.parametrize(("make", "error", "message"), MISTAKES)
def test_a_mistake_is_told_in_one_line(
    make: Callable[[Program], object], error: type[AutotuneError], message: str
) -> None:
    assert_refused(make, error, message)
