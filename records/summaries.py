"""What logs hold: a row for each workload, target and device, made while records go by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from records.best_of_group import BestOfGroup
from records.groups import group_key
from records.outline import Outline
from records.query import ranked
from records.record import Record, without_node


@dataclass(frozen=True)
class SummaryRow:
    """Summary of logs for one workload and target on one device.

    `trials` counts its trials, `ok` the successful ones, `failures` the others by error code.
    `best_cost_s` (seconds) and `best_index` are those of `best`, None if nothing succeeded;
    `compared` says whether a final comparison has chosen it. `first_s` and `last_s` are the
    earliest and latest time stamp (Unix time in seconds). `constant` are the positions of inputs
    that did not change. `device` is in the form of `Record.device`; `finals` counts the records of
    final comparisons.
    """

    template: str
    args: Mapping[str, Any]
    target: str
    trials: int
    ok: int
    failures: Mapping[str, int]
    best_cost_s: float | None
    best_index: int | None
    first_s: float
    last_s: float
    compared: bool = False
    constant: tuple[int, ...] = ()
    device: Mapping[str, Any] = field(default_factory=dict)
    finals: int = 0

    @property
    def records(self) -> int:
        """Number of records, those of final comparisons included."""
        return self.trials + self.finals


def summary(records: Iterable[Record]) -> list[SummaryRow]:
    """Return one row per workload, target and device, in order of first appearance."""
    made = Summary()
    for record in records:
        made.add(Outline.of_record(record))
    return list(made.by_key().values())


class Summary:
    """A summary to which records are added one by one."""

    def __init__(self) -> None:
        self._members: dict[str, _Members] = {}

    def add(self, outline: Outline) -> None:
        """Take in a record."""
        key = group_key(outline, any_version=True)
        members = self._members.get(key)
        if members is None:
            members = self._members[key] = _Members(outline)
        members.add(outline)

    def by_key(self) -> dict[str, SummaryRow]:
        """Return the rows in order of first appearance, by a key of workload, target and device."""
        return {key: members.row() for key, members in self._members.items()}


class _Members:
    """The records of one row that have been read so far."""

    def __init__(self, first: Outline) -> None:
        self._first = first
        self._failures: Counter[str] = Counter()
        self._best = BestOfGroup[Outline]()

    def add(self, outline: Outline) -> None:
        if outline.final is None and outline.cost_s is None:
            self._failures[outline.error["code"] if outline.error else ""] += 1
        self._best.add(outline, outline._replace(workload={}, device={}))

    def row(self) -> SummaryRow:
        winner = next(iter(ranked(self._best.kept())), None)
        first = self._first
        return SummaryRow(
            template=first.template,
            args=first.args,
            target=first.target,
            trials=self._best.trials,
            ok=self._best.ok,
            failures=dict(self._failures),
            best_cost_s=None if winner is None else winner.cost_s,
            best_index=None if winner is None else winner.config["index"],
            first_s=self._best.first_s,
            last_s=self._best.last_s,
            compared=winner is not None and winner.final is not None,
            constant=first.constant,
            device=without_node(first.device),
            finals=len(self._best.finals),
        )
