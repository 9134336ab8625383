"""Compares two sets of logs: records that only one of them has, and workloads whose best differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from records.summaries import Summary, SummaryRow
from records.tools.keys import content_digest
from records.tools.log_lines import LogLine

# Yields the records of some logs, each time it is called.
Records = Callable[[], Iterable[LogLine]]


@dataclass(frozen=True)
class BestChange:
    """A workload whose best record differs; the rows of both sides, None where there is none."""

    before: SummaryRow | None
    after: SummaryRow | None

    @property
    def row(self) -> SummaryRow:
        """A row that describes the workload."""
        found = self.after or self.before
        assert found is not None
        return found


class LogDiff:
    """The difference of two sets of logs; a record that is there twice counts once.

    Attributes
    ----------
    same : int
        Number of records that are in both.
    only : tuple of int
        Number of records that only the first has, and that only the second has.
    best : list of BestChange
        Workloads, targets and devices whose best record differs.
    """

    def __init__(self, before: Records, after: Records) -> None:
        self._sides = (before, after)
        first, second = _Side(before()), _Side(after())
        self._contents = (first.contents, second.contents)
        common = first.contents & second.contents
        self.same = len(common)
        self.only = (len(first.contents) - self.same, len(second.contents) - self.same)
        rows = {**first.rows, **second.rows}
        changes = (BestChange(first.rows.get(key), second.rows.get(key)) for key in rows)
        self.best = [c for c in changes if _result(c.before) != _result(c.after)]

    def __bool__(self) -> bool:
        """Whether there is a difference."""
        return any(self.only) or bool(self.best)

    def lines(self, side: int) -> Iterator[LogLine]:
        """Yield the records that only one side has, 0 or 1, each once."""
        others, told = self._contents[1 - side], set[bytes]()
        for line in self._sides[side]():
            content = content_digest(line.data)
            if content not in others and content not in told:
                told.add(content)
                yield line


class _Side:
    def __init__(self, lines: Iterable[LogLine]) -> None:
        self.contents: set[bytes] = set()
        summary = Summary()
        for line in lines:
            self.contents.add(content_digest(line.data))
            summary.add(line.outline)
        self.rows = summary.by_key()


def _result(row: SummaryRow | None) -> tuple[float | None, int | None]:
    return (None, None) if row is None else (row.best_cost_s, row.best_index)
