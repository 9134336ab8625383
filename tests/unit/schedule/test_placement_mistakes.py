"""What is refused of where stages are computed, and in what words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.mistakes import (
    INLINED,
    NO_OUTPUT,
    NOT_GIVEN,
    Program,
    assert_refused,
    lower_schedule_of,
    refused,
)

from autotune import te
from autotune.errors import AutotuneError, LoweringError


def another_schedule(p: Program) -> Any:
    return te.create_schedule(p.D.op)


def reader_outside(p: Program) -> None:
    p.sB.compute_at(p.sD, p.y)
    p.lower()


def two_readers(p: Program) -> None:
    E = te.compute((8,), lambda e: p.C[e] + p.D[e], name="E")
    s = te.create_schedule(E.op)
    s[p.C].compute_at(s[E], E.op.axis[0])
    lower_schedule_of(s, p.A, E)


def one_axis_in_two_reductions(p: Program) -> None:
    E = te.compute((8,), lambda e: te.sum(p.B[e, p.k] * p.C[e], axis=p.k), name="E")
    s = te.create_schedule(E.op)
    s[p.C].compute_at(s[E], p.k)
    lower_schedule_of(s, p.A, E)


PLACE = [
    refused(
        "compute a stage in itself",
        lambda p: p.sC.compute_at(p.sC, p.x),
        "compute_at on stage 'C': it would be computed inside itself; give a stage that reads it "
        "and is not inside it",
    ),
    refused(
        "compute two stages in one another",
        lambda p: [p.sB.compute_at(p.sC, p.x), p.sC.compute_at(p.sB, p.i)],
        "compute_at on stage 'C': it would be computed inside itself, as 'B' is computed inside "
        "it; give a stage that reads it and is not inside it",
    ),
    refused(
        "compute an output in a loop",
        lambda p: p.sD.compute_at(p.sC, p.x),
        f"compute_at on stage 'D': {NO_OUTPUT}",
    ),
    refused(
        "compute a placeholder in a loop",
        lambda p: p.sA.compute_at(p.sB, p.i),
        f"compute_at on stage 'A': {NOT_GIVEN}",
    ),
    refused(
        "compute at a tensor",
        lambda p: p.sC.compute_at(p.D, p.y),
        "compute_at on stage 'C': expected a stage first, got <tensor D: float32 [8]>; give one, "
        "as in s[B]",
    ),
    refused(
        "compute at an axis of another stage",
        lambda p: p.sC.compute_at(p.sD, p.x),
        "compute_at of 'C' on stage 'D', axis 'x': it belongs to stage 'C'; give one of the loops "
        "of 'D': y",
    ),
    refused(
        "compute at a stage of another schedule",
        lambda p: p.sC.compute_at(another_schedule(p)[p.D], p.y),
        "compute_at on stage 'C': stage 'D' belongs to another schedule; give a stage of this one",
    ),
    refused(
        "compute at a loop that was split",
        lambda p: [p.sD.split(p.y, factor=2), p.sC.compute_at(p.sD, p.y)],
        "compute_at of 'C' on stage 'D', axis 'y': it was split or fused before; give one of the "
        "loops of 'D': y.outer, y.inner",
    ),
    refused(
        "compute at an inlined stage",
        lambda p: (
            [p.sB.compute_inline(), p.s.cache_read(p.A, "local", [p.B])]
            and p.s[p.s.stages[1].outputs[0]].compute_at(p.sB, p.i)
        ),
        f"compute_at of 'A.local' on stage 'B': {INLINED}",
    ),
    refused(
        "compute where a reader is outside",
        reader_outside,
        "stage 'B' is computed at axis 'y' of stage 'D', but its reader 'C' is not inside that "
        "loop; move the reader there too, or compute 'B' further out",
        LoweringError,
    ),
    refused(
        "compute where one of two readers is outside",
        two_readers,
        "stage 'C' is computed at axis 'e' of stage 'E', but its reader 'D' is not inside that "
        "loop; move the reader there too, or compute 'C' further out",
        LoweringError,
    ),
    refused(
        "compute at a loop over the same axis",
        one_axis_in_two_reductions,
        "stages 'C' and 'E' both reduce over axis 'k', and one is computed inside the other; make "
        "a te.reduce_axis for each",
        LoweringError,
    ),
    refused(
        "compute a placeholder at the root",
        lambda p: p.sA.compute_root(),
        f"compute_root on stage 'A': {NOT_GIVEN}",
    ),
    refused(
        "inline a reduction",
        lambda p: p.sC.compute_inline(),
        "compute_inline on stage 'C', axis 'k': it reduces, which takes loops of its own; use "
        "compute_at",
    ),
    refused(
        "inline an output",
        lambda p: p.sD.compute_inline(),
        f"compute_inline on stage 'D': {NO_OUTPUT}",
    ),
    refused(
        "inline a placeholder",
        lambda p: p.sA.compute_inline(),
        f"compute_inline on stage 'A': {NOT_GIVEN}",
    ),
    refused(
        "inline a stage with another one inside",
        lambda p: [
            p.s[p.s.cache_read(p.A, "local", [p.B])].compute_at(p.sB, p.i),
            p.sB.compute_inline(),
        ],
        "compute_inline on stage 'B', axis 'i': stage 'A.local' is computed at it; compute_inline "
        "it first",
    ),
    refused(
        "inline a stage with a layout",
        lambda p: [p.sB.storage_align(p.i, 8), p.sB.compute_inline()],
        "compute_inline on stage 'B': its storage was decided on already, and inline it has none; "
        "leave one of the two",
    ),
]


@pytest.mark.parametrize(("make", "error", "message"), PLACE)
def test_a_mistake_is_told_in_one_line(
    make: Callable[[Program], object], error: type[AutotuneError], message: str
) -> None:
    assert_refused(make, error, message)
