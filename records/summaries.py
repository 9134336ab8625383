"""What logs hold: a row for each workload, target and device, made while records go by."""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from records.json_lines import canonical_json
from records.outline import Outline
from records.query import ranked
from records.record import Record

# Trials that are remembered of a row: if the best ones have failed since, the next one counts.
_REMEMBERED = 8


@dataclass(frozen=True)
class SummaryRow:
    """Summary of logs for one workload and target on one device.

    `trials` counts its trials, `ok` the successful ones, `failures` the others by error code.
    `best_cost_s` (seconds) and `best_index` are those of `best`, None if nothing succeeded;
    `compared` says whether a final comparison has chosen it. `first_s` and `last_s` are the
    earliest and latest time stamp (Unix time in seconds). `constant` are the positions of inputs
    that did not change. `device` is what records say of the device; `finals` counts the records of
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


def summary_key(outline: Outline) -> str:
    """Return what is equal for all records of a row."""
    workload = outline.workload
    constant = workload.get("constant") or []
    named = [workload["template"], workload["args"], constant, outline.target, outline.device]
    return canonical_json(named)


class Summary:
    """A summary to which records are added one by one."""

    def __init__(self) -> None:
        self._members: dict[str, _Members] = {}

    def add(self, outline: Outline) -> None:
        """Take in a record."""
        key = summary_key(outline)
        members = self._members.get(key)
        if members is None:
            members = self._members[key] = _Members(outline)
        members.add(outline)

    def by_key(self) -> dict[str, SummaryRow]:
        """Return the rows in order of first appearance, by a key of workload, target and device."""
        return {key: members.row() for key, members in self._members.items()}


class _Members:
    """The records of one row, as far as they have gone by."""

    def __init__(self, first: Outline) -> None:
        self._first = first
        self._trials = self._ok = 0
        self._failures: Counter[str] = Counter()
        self._finals: list[Outline] = []
        self._fastest: list[tuple[float, int, Outline]] = []  # cost, number, record
        self._first_s = self._last_s = first.timestamp

    def add(self, outline: Outline) -> None:
        self._first_s = min(self._first_s, outline.timestamp)
        self._last_s = max(self._last_s, outline.timestamp)
        if outline.final is not None:
            self._finals.append(outline)
            return
        self._trials += 1
        if outline.cost_s is None:
            self._failures[outline.error["code"] if outline.error else ""] += 1
            return
        self._ok += 1
        worst = self._fastest[-1][0] if len(self._fastest) == _REMEMBERED else None
        if worst is None or outline.cost_s < worst:
            lean = outline._replace(workload={}, device={})
            bisect.insort(self._fastest, (outline.cost_s, self._ok, lean))
            del self._fastest[_REMEMBERED:]

    def row(self) -> SummaryRow:
        fastest = [outline for _, _, outline in self._fastest]
        winner = next(iter(ranked([*self._finals, *fastest])), None)
        first, workload = self._first, self._first.workload
        return SummaryRow(
            template=workload["template"],
            args=workload["args"],
            target=first.target,
            trials=self._trials,
            ok=self._ok,
            failures=dict(self._failures),
            best_cost_s=None if winner is None else winner.cost_s,
            best_index=None if winner is None else winner.config["index"],
            first_s=self._first_s,
            last_s=self._last_s,
            compared=winner is not None and winner.final is not None,
            constant=tuple(workload.get("constant") or ()),
            device=first.device,
            finals=len(self._finals),
        )
