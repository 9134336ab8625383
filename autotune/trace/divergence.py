"""Finds the line at which a run with numbers diverges from a run with symbols."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

from autotune.schedule.schedule import Schedule
from autotune.schedule.stage import Stage
from autotune.trace.symbolic_values import SymbolicBool, SymbolicInt

MAX_EVENTS = 1_000_000  # Largest number of instructions of a template that are recorded.

Run = Callable[[], object]


def divergence_line(
    one: Run, other: Run, file: str, steps: tuple[Sequence[str], Sequence[str]]
) -> int:
    """Return the line of `file` after which two runs differ; 0 if it is not found.

    This is the last instruction that both execute before they diverge. If they never diverge, it is
    the line after which a number, a text or a flag first differs, or else the line of the first
    step in which the schedules differ.

    one, other: the runs; an exception ends a run.
    file: the template's.
    steps: steps of the schedules that they make.
    """
    if sys.version_info >= (3, 12):  # instructions are traced from a function's second run on
        _Execution(file).follow(one)
        _Execution(file).follow(other)
    ways = [_Execution(file), _Execution(file)]
    for way, run in zip(ways, (one, other), strict=True):
        way.follow(run)
    first, second = ways
    line = 0
    for here, there in zip(first.instructions, second.instructions, strict=False):
        if here != there:
            return line
        line = here[2]
    if len(first.instructions) != len(second.instructions):
        return line
    for (before, values), (_, others) in zip(first.values, second.values, strict=False):
        if values != others:
            return before
    pairs = itertools.zip_longest(*steps)
    number = next((n for n, (a, b) in enumerate(pairs) if a != b), None)
    return 0 if number is None else first.line_of_step(number)


class _Execution:
    """The executed instructions of a file in a run."""

    def __init__(self, file: str) -> None:
        self._file = file
        self.instructions: list[tuple[str, int, int]] = []  # function, place in it, and line
        # Lines, and the values of plain variables after each of them.
        self.values: list[tuple[int, tuple[object, ...]]] = []
        self._steps: list[tuple[int, int]] = []
        self._latest: dict[FrameType, int] = {}

    def follow(self, run: Run) -> None:
        """Execute a run with a trace function."""
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            with contextlib.suppress(Exception, SystemExit):
                run()
        finally:
            sys.settrace(before)

    def line_of_step(self, number: int) -> int:
        """Return the line that applied a step, given its number; 0 if it is not found."""
        applied = [line for line, count in self._steps if count <= number]
        return applied[-1] if applied and self._steps[-1][1] > number else 0

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != self._file or len(self.instructions) >= MAX_EVENTS:
            return None
        frame.f_trace_opcodes = True
        return self._within

    def _within(self, frame: FrameType, event: str, argument: Any) -> Any:
        line = frame.f_lineno
        if event == "opcode":
            self.instructions.append((frame.f_code.co_name, frame.f_lasti, line))
        else:
            plain = tuple(map(_plain, frame.f_locals.values()))
            self.values.append((self._latest.get(frame, line), plain))
            self._latest[frame] = line
            for value in frame.f_locals.values():
                schedule = value.schedule if type(value) is Stage else value
                if type(schedule) is Schedule:
                    self._steps.append((line, len(schedule.steps)))
                    break
        return self._within


def _plain(value: object) -> object:
    """Return a number, a text, a flag, or the value of a symbol; None for anything else."""
    if type(value) in (SymbolicInt, SymbolicBool):
        return value.guide  # type: ignore[attr-defined]
    return value if type(value) in (int, float, bool, str) else None
