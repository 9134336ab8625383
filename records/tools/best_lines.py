"""The best lines of each group of records, found while lines go by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from records.best_of_group import BestOfGroup
from records.groups import group_key
from records.outline import Outline
from records.query import ranked
from records.tools.log_lines import LogLine

T = TypeVar("T")


class BestLines(Generic[T]):
    """Finds the records that a build would take first: see `records.groups.useful`.

    `most`: trials that are kept of each group.
    `key`: what is equal for the records of a group.

    Attributes
    ----------
    failures : Counter
        Numbers of trials that failed, by error code.
    """

    def __init__(self, most: int, key: Callable[[Outline], str] = group_key) -> None:
        self._most = most
        self._key = key
        self._groups: dict[str, BestOfGroup[T]] = {}
        self.failures = Counter[str]()

    def add(self, outline: Outline, given: T) -> None:
        """Take in a line.

        `given`: what is wanted of it if it is among the best.
        """
        key = self._key(outline)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = BestOfGroup(self._most)
        group.add(outline, given)
        if outline.final is None and outline.cost_s is None:
            self.failures[outline.error["code"] if outline.error else ""] += 1

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
        return sum(min(group.ok, group.most) for group in self._groups.values())

    @property
    def passed(self) -> int:
        """Number of trials that succeeded and are not among the best."""
        return sum(group.ok for group in self._groups.values()) - self.trials

    def each(self) -> Iterator[list[T]]:
        """Yield what is kept of each group."""
        return (group.kept() for group in self._groups.values())


def best_first(lines: list[LogLine], most: int) -> list[LogLine]:
    """Return the records of one group that a build would take first; see `records.query.ranked`."""
    place = {id(line.outline): line for line in lines}
    return [place[id(outline)] for outline in ranked(line.outline for line in lines)[:most]]
