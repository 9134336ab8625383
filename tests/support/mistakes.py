"""A table of mistakes: what a user writes wrongly, and the one line that says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from autotune import te
from autotune.errors import AutotuneError, IRError, ScheduleError
from autotune.lowering.nest.lower_schedule import lower_schedule
from autotune.schedule.schedule import Schedule
from autotune.te.tensor import Tensor

NOT_GIVEN = "a placeholder is given by the caller and not computed; use cache_read for a copy"
NO_OUTPUT = (
    "an output is the caller's array and is computed at the root; use cache_write for a stage that "
    "computes it elsewhere"
)
INLINED = "it is computed inline and has neither loops nor storage; use compute_root first"


class Program:
    """B = A + 1 (8 x 6), C = sum of B over k (8), D = 2 C (8), and the schedule of D.

    Axes are i and j of B, x and k of C, y of D; sA to sD are the stages.
    """

    def __init__(self) -> None:
        self.A = te.placeholder((8, 6), name="A")
        self.k = te.reduce_axis((0, 6), "k")
        self.B = te.compute((8, 6), lambda i, j: self.A[i, j] + 1, name="B")
        self.C = te.compute((8,), lambda x: te.sum(self.B[x, self.k], axis=self.k), name="C")
        self.D = te.compute((8,), lambda y: self.C[y] * 2, name="D")
        self.s = te.create_schedule(self.D.op)
        self.sA, self.sB, self.sC, self.sD = (self.s[t] for t in (self.A, self.B, self.C, self.D))
        (self.i, self.j), (self.x,), (self.y,) = (t.op.axis for t in (self.B, self.C, self.D))

    def lower(self) -> None:
        lower_schedule(self.s, [self.A, self.D])


def lower_schedule_of(schedule: Schedule, *tensors: Tensor) -> None:
    lower_schedule(schedule, list(tensors))


def refused(
    what: str,
    make: Callable[[Program], object],
    message: str,
    error: type[AutotuneError] = ScheduleError,
) -> Any:
    """A row of a table of mistakes: what it is, the mistake, and the whole message."""
    return pytest.param(make, error, message, id=what)


def assert_refused(
    make: Callable[[Program], object], error: type[AutotuneError], message: str
) -> None:
    """Check type and text of the error, and that the text is one line.

    What schedules refuse says, after a semicolon, what to do.
    """
    program = Program()
    with pytest.raises(error) as caught:
        make(program)
    assert type(caught.value) is error
    assert str(caught.value) == message
    assert "\n" not in message
    if error is not IRError:
        assert "; " in message, "what is to be done?"
