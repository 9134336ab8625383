"""Configurations that are the same program: of those only the first is measured."""

from __future__ import annotations

from autotune.task.task import Task
from autotune.trace.fingerprint import digest, schedule_lines


class Copies:
    """Finds which configurations of a task make the program of an earlier one.

    A knob may have no effect beside the values of others: 64 parts of a loop of 8 iterations are
    the same as 8 parts. The programs are compared as they are before lowering, computations and
    schedule steps with the knobs' numbers in them, so that nothing has to be built. Kernels from
    elsewhere have no such form: each configuration is a program of its own.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self._first: dict[str, int] = {}  # by digest of the program
        self._original: dict[int, int | None] = {}

    def __len__(self) -> int:
        return sum(original is not None for original in self._original.values())

    def original_of(self, index: int) -> int | None:
        """Return the configuration asked for earlier that is the same program; None if none is.

        index: a configuration that no rule refuses.
        """
        if index not in self._original:
            first = self._first.setdefault(self._program(index), index)
            self._original[index] = None if first == index else first
        return self._original[index]

    def is_copy(self, index: int) -> bool:
        """Whether a configuration was asked for, and is a copy."""
        return self._original.get(index) is not None

    def copies_of(self, index: int) -> list[int]:
        """Return the configurations asked for so far that are copies of one."""
        return [copy for copy, original in self._original.items() if original == index]

    def _program(self, index: int) -> str:
        schedule = self._task.structure(index).schedule
        if schedule is None:
            return str(index)
        return digest(schedule_lines(schedule, self._task.knob_values(index)))
