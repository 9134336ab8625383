"""Counts the rejections of each rule of a space; the counts are exact if groups of knobs are small.

A rule connects the knobs that it reads. Groups of connected knobs are counted separately and their
counts multiplied, so that a space of 10^12 configurations is counted exactly if no group has more
than ten million; otherwise a sample is counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from search_spaces.columns import Codec, LazyColumns
from search_spaces.constraints import CHUNK, Constraint, evaluated
from search_spaces.knob import IntArray

# Largest number of configurations, of a space or of a group of knobs, that are all counted.
ENUMERABLE = 10_000_000

SAMPLE = 1 << 20  # Size of the sample of a larger one.


@dataclass(frozen=True)
class RuleCount:
    """Rejections of one rule."""

    name: str
    message: str
    first: int  # Configurations that it rejects and no earlier rule does.
    # All configurations that it rejects; None if it cannot be evaluated where earlier rules reject.
    total: int | None


@dataclass(frozen=True)
class FeasibilityCounts:
    """The number of feasible configurations of a space, and the rejections by rule."""

    size: int  # Configurations of the space.
    counted: int  # Number of counted configurations: all of them, or the size of a sample.
    feasible: int
    rules: tuple[RuleCount, ...]  # In the order of the space's constraints.

    @property
    def exact(self) -> bool:
        """Whether the counts are of the whole space."""
        return self.size == self.counted


@dataclass
class _Group:
    """Counts of the configurations of some knobs, under the rules that read no others."""

    size: int
    rules: list[int]
    first: dict[int, int] = field(default_factory=dict)
    total: dict[int, int | None] = field(default_factory=dict)

    def passing(self, before: float = math.inf) -> int:
        """Return how many configurations pass the group's rules of a number less than `before`."""
        return self.size - sum(count for rule, count in self.first.items() if rule < before)


def count_feasible(
    codec: Codec, constraints: Sequence[Constraint], most: int = ENUMERABLE, sample: int = SAMPLE
) -> FeasibilityCounts:
    """Count the configurations that each constraint of a space rejects.

    `codec`: the space's knobs.
    `most`: configurations that are counted one by one at most, for each group of knobs.
    `sample`: configurations drawn, always the same ones, where a group has more.
    """
    groups = _groups(codec, constraints, most)
    if groups is None:
        drawn = np.random.default_rng(0).integers(codec.size, size=sample)
        whole = _Group(sample, list(range(len(constraints))))
        _count(whole, codec, constraints, (drawn[i : i + CHUNK] for i in range(0, sample, CHUNK)))
        return _product(codec.size, constraints, [whole])
    counted = []
    for knobs, rules in groups:
        own = Codec(tuple(codec.knobs[k] for k in knobs))
        group = _Group(own.size, rules)
        if rules:
            _count(group, own, constraints, _chunks(own.size))
        counted.append(group)
    return _product(codec.size, constraints, counted)


def _groups(
    codec: Codec, constraints: Sequence[Constraint], most: int
) -> list[tuple[list[int], list[int]]] | None:
    """Return groups of connected knobs with their rules; None if a group is too large.

    A rule with unknown columns connects all knobs.
    """
    groups: list[tuple[set[int], list[int]]] = [({k}, []) for k in range(len(codec.knobs))]
    for number, rule in enumerate(constraints):
        names = codec.owners if rule.reads is None else rule.reads
        read = {codec.owners[name] for name in names}
        tied = [group for group in groups if group[0] & read]
        knobs = set[int]().union(*(group[0] for group in tied))
        rules = sorted([number, *(r for group in tied for r in group[1])])
        groups = [group for group in groups if not group[0] & read] + [(knobs, rules)]
    sizes = [math.prod(codec.radices[k] for k in knobs) for knobs, rules in groups if rules]
    if any(size > most for size in sizes):
        return None
    return [(sorted(knobs), rules) for knobs, rules in groups]


def _chunks(size: int) -> Iterator[IntArray]:
    for start in range(0, size, CHUNK):
        yield np.arange(start, min(start + CHUNK, size), dtype=np.int64)


def _count(
    group: _Group, codec: Codec, constraints: Sequence[Constraint], chunks: Iterator[IntArray]
) -> None:
    """Count the given configurations of a group's knobs that the group's rules reject."""
    own = [constraints[number] for number in group.rules]
    first = np.zeros(len(own), dtype=np.int64)
    total = np.zeros(len(own), dtype=np.int64)
    known = np.ones(len(own), dtype=np.bool_)
    for indices in chunks:
        alive = np.ones(len(indices), dtype=np.bool_)
        columns = LazyColumns(codec, indices)
        for place, (holds, everywhere) in enumerate(evaluated(own, columns, len(indices))):
            first[place] += np.count_nonzero(alive & ~holds)
            total[place] += np.count_nonzero(~holds)
            known[place] &= everywhere
            alive &= holds
    for place, number in enumerate(group.rules):
        group.first[number] = int(first[place])
        group.total[number] = int(total[place]) if known[place] else None


def _product(
    size: int, constraints: Sequence[Constraint], groups: Sequence[_Group]
) -> FeasibilityCounts:
    """Multiply the counts of independent groups of knobs."""
    rules = []
    for number, rule in enumerate(constraints):
        (own,) = (group for group in groups if number in group.first)
        others = [group for group in groups if group is not own]
        first = own.first[number] * math.prod(group.passing(number) for group in others)
        total = own.total[number]
        if total is not None:
            total *= math.prod(group.size for group in others)
        rules.append(RuleCount(rule.name, rule.message, first, total))
    counted = math.prod(group.size for group in groups)
    return FeasibilityCounts(
        size, counted, math.prod(group.passing() for group in groups), tuple(rules)
    )
