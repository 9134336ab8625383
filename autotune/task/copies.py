"""Finds copies: configurations that give the same program, of which only the first is measured.

In: configurations of a task, in the order of their proposals. Out: for each the earlier one that
has the same program, or None.
"""

from __future__ import annotations

from autotune.task.task import Task
from autotune.trace.fingerprint import digest, schedule_lines

# Most measured configurations whose programs are compared: each takes milliseconds.
MOST_MEASURED = 1000


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
        self._measured = 0

    def original_of(self, index: int) -> int | None:
        """Return the configuration asked for earlier that is the same program; None if none is.

        index: a configuration that no rule refuses.
        """
        if index not in self._original:
            first = self._first.setdefault(self._program(index), index)
            self._original[index] = None if first == index else first
        return self._original[index]

    def add_measured(self, index: int) -> None:
        """Let later configurations be copies of one that was measured elsewhere.

        It is no copy itself. Only the first `MOST_MEASURED` are compared.
        """
        if self._measured < MOST_MEASURED and index not in self._original:
            self._measured += 1
            self._first.setdefault(self._program(index), index)
        self._original[index] = None

    def _program(self, index: int) -> str:
        structure = self._task.structure(index)
        if structure.schedule is None:
            return str(index)
        arguments = str([tensor.name for tensor in structure.tensors])
        lines = schedule_lines(structure.schedule, self._task.knob_values(index))
        return digest([arguments, *lines])
