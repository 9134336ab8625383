"""The best lines of each group of records, found while lines go by."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from records.outline import Outline
from records.query import ranked
from records.tools.keys import group_key
from records.tools.log_lines import LogLine

T = TypeVar("T")


@dataclass
class Best(Generic[T]):
    """The best of one group: all of final comparisons, and the fastest trials.

    `trials`: pairs of (-cost in seconds, -number) and what was kept of the line: a heap whose first
        one is the worst.
    """

    finals: list[tuple[int, T]] = field(default_factory=list)
    trials: list[tuple[float, int, T]] = field(default_factory=list)


class BestLines(Generic[T]):
    """Finds the records that a build would take first: see `records.groups.useful`.

    `most`: trials that are kept of each group.
    `key`: what is equal for the records of a group.

    Attributes
    ----------
    passed : int
        Number of trials that are not among the best.
    failures : Counter
        Numbers of trials that failed, by error code.
    """

    def __init__(self, most: int, key: Callable[[Outline], str] = group_key) -> None:
        self._most = most
        self._key = key
        self._groups: dict[str, Best[T]] = {}
        self.passed = 0
        self.failures = Counter[str]()

    def add(self, number: int, outline: Outline, kept: T) -> None:
        """Take in a line.

        `number`: its place among all lines; of equally fast ones the first is the best.
        `kept`: what is wanted of it if it is among the best.
        """
        group = self._groups.setdefault(self._key(outline), Best())
        if outline.final is not None:
            group.finals.append((number, kept))
        elif outline.cost_s is None:
            self.failures[outline.error["code"] if outline.error else ""] += 1
        elif len(group.trials) < self._most:
            heapq.heappush(group.trials, (-outline.cost_s, -number, kept))
        else:
            heapq.heappushpop(group.trials, (-outline.cost_s, -number, kept))
            self.passed += 1

    @property
    def groups(self) -> int:
        """Number of groups."""
        return len(self._groups)

    @property
    def finals(self) -> int:
        """Number of records of final comparisons."""
        return sum(len(group.finals) for group in self._groups.values())

    @property
    def trials(self) -> int:
        """Number of trials that are among the best."""
        return sum(len(group.trials) for group in self._groups.values())

    def numbers(self) -> set[int]:
        """Return the numbers of the lines that are kept."""
        kept = self._groups.values()
        finals = {number for group in kept for number, _ in group.finals}
        return finals | {-number for group in kept for _, number, _ in group.trials}

    def each(self) -> Iterator[list[T]]:
        """Yield what is kept of each group, in the order of the log."""
        for group in self._groups.values():
            trials = [(-number, kept) for _, number, kept in group.trials]
            yield [kept for _, kept in sorted([*group.finals, *trials], key=lambda pair: pair[0])]


def best_first(lines: list[LogLine], most: int) -> list[LogLine]:
    """Return the records of one group that a build would take first; see `records.query.ranked`."""
    place = {id(line.outline): line for line in lines}
    return [place[id(outline)] for outline in ranked(line.outline for line in lines)[:most]]
