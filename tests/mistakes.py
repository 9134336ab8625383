"""A table of mistakes: what a user writes wrongly, and the one line that says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from autotune import te
from autotune.errors import AutotuneError
from autotune.lowering.nest import lower_schedule
from autotune.schedule.schedule import Schedule
from autotune.te.tensor import Tensor


class Program:
    """B = A + 1 (8 x 6), C = sum of B over k (8), D = 2 C (8), and the schedule of D."""

    def __init__(self) -> None:
        self.A = te.placeholder((8, 6), name="A")
        self.k = te.reduce_axis((0, 6), "k")
        self.B = te.compute((8, 6), lambda i, j: self.A[i, j] + 1, name="B")
        self.C = te.compute((8,), lambda x: te.sum(self.B[x, self.k], axis=self.k), name="C")
        self.D = te.compute((8,), lambda y: self.C[y] * 2, name="D")
        self.s = te.create_schedule(self.D.op)


def lower_schedule_of(schedule: Schedule, *tensors: Tensor) -> None:
    lower_schedule(schedule, list(tensors))


@dataclass
class Mistakes:
    """Functions that each make one mistake, with the error they must end in."""

    table: list[Any] = field(default_factory=list)

    def __call__(
        self, error: type[AutotuneError], message: str
    ) -> Callable[[Callable[[Program], None]], Callable[[Program], None]]:
        def add(make: Callable[[Program], None]) -> Callable[[Program], None]:
            self.table.append(pytest.param(make, error, message, id=make.__name__))
            return make

        return add


def assert_refused(
    make: Callable[[Program], None], error: type[AutotuneError], message: str
) -> None:
    """Check type and text of the error, and that the text is one line."""
    program = Program()
    with pytest.raises(error) as caught:
        make(program)
    assert type(caught.value) is error
    assert str(caught.value) == message
    assert "\n" not in message
