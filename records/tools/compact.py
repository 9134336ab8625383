"""Compacts logs: what a build looks at stays, and all else goes."""

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


def compact(lines: Lines, most: int, told: list[Compacted]) -> Iterator[LogLine]:
    """Yield the records of final comparisons, and the fastest trials of each group.

    `most`: trials that are kept of each group.
    `told`: what became of the records is appended to it.

    RecordError as `records_of`.
    """
    best = BestLines[int](most)
    for number, line in enumerate(records_of(lines())):
        best.add(line.outline, number)
    kept = set(itertools.chain.from_iterable(best.each()))
    again = (line for line in lines() if isinstance(line.found, Outline))
    yield from (line for number, line in enumerate(again) if number in kept)
    told.append(Compacted(best.groups, best.finals, best.trials, best.passed, dict(best.failures)))
