"""Compacts logs: keeps the records that a build may use, and drops all others."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from records.outline import Outline
from records.tools.best_lines import BestLines
from records.tools.log_lines import LogLine, records_of
from records.tools.new_logs import Lines


@dataclass(frozen=True)
class Compacted:
    """What became of the records of some logs.

    `groups`: number of groups of records: of one workload and target, measured on one device by one
        version of the template.
    `finals`, `trials`: number of records of final comparisons and of trials that were kept.
    `dropped_trials`, `failures`: number of trials that were not, and of failed ones by error code.
    """

    groups: int
    finals: int
    trials: int
    dropped_trials: int
    failures: Mapping[str, int]

    @property
    def kept(self) -> int:
        """Number of records that were kept."""
        return self.finals + self.trials

    @property
    def dropped(self) -> int:
        """Number of records that were not."""
        return self.dropped_trials + sum(self.failures.values())


class Compaction:
    """Iterates over the records of final comparisons, and the fastest trials of each group.

    `counts`: what becomes of the records.

    RecordError as `records_of`.

    Parameters
    ----------
    lines : callable
        Yields the lines of some logs each time it is called; it is called twice.
    most : int
        Number of trials that are kept of each group.
    """

    def __init__(self, lines: Lines, most: int) -> None:
        self._lines = lines
        best = BestLines[int](most)
        for number, line in enumerate(records_of(lines())):
            best.add(line.outline, number)
        self._kept = set(itertools.chain.from_iterable(best.each()))
        self.counts = Compacted(
            best.groups, best.finals, best.trials, best.passed, dict(best.failures)
        )

    def __iter__(self) -> Iterator[LogLine]:
        records = (line for line in self._lines() if isinstance(line.found, Outline))
        return (line for number, line in enumerate(records) if number in self._kept)
