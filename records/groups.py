"""Groups of records: one workload and target, measured on one device by one version of a template.

What a build may use is decided for a group as a whole; only the records of the groups that it may
use are then looked at. A source of records answers both questions: a list in memory, or logs with
an index beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from records.query import ranked
from records.record import Record, canonical, workload_key

MOST_TRIALS = 64  # Trials of a group that a source returns, the fastest ones.


@dataclass(frozen=True, kw_only=True)
class RecordGroup:
    """What records have in common, and how many there are.

    `template`, `args`, `constant`, `target`: the workload.
    `device`: the device that they were measured on, as they describe it.
    `fingerprint`: of the template; None where they have none.
    `trials`, `ok`: number of trials, and of those that succeeded.
    `finals`: number of records of final comparisons.
    `best_s`: seconds of the fastest trial; None if none succeeded.
    `first_s`, `last_s`: earliest and latest Unix time in seconds.
    """

    template: str
    args: Mapping[str, Any]
    constant: tuple[int, ...]
    target: str
    device: Mapping[str, Any]
    fingerprint: str | None
    trials: int
    ok: int
    finals: int
    best_s: float | None
    first_s: float
    last_s: float

    @property
    def records(self) -> int:
        """Number of records, those of final comparisons included."""
        return self.trials + self.finals


@runtime_checkable
class RecordSource(Protocol):
    """Where records are looked up."""

    def groups(self, template: str | None = None) -> Sequence[RecordGroup]:
        """Return the groups of a template, or all, in order of first appearance."""

    def records_of(self, group: RecordGroup) -> list[Record]:
        """Return those of a group that may be used: see `useful`."""


class RecordList:
    """Records in memory as a source."""

    def __init__(self, records: Iterable[Record]) -> None:
        members: dict[tuple[str, str, str | None], list[Record]] = {}
        for record in records:
            members.setdefault(group_key(record), []).append(record)
        self._members = list(members.values())
        self._groups = [_group(group) for group in self._members]

    def groups(self, template: str | None = None) -> Sequence[RecordGroup]:
        """Return the groups of a template, or all, in order of first appearance."""
        return [group for group in self._groups if template in (None, group.template)]

    def records_of(self, group: RecordGroup) -> list[Record]:
        """Return those of a group that may be used: see `useful`."""
        return next(
            useful(members)
            for known, members in zip(self._groups, self._members, strict=True)
            if known is group
        )


def as_source(records: RecordSource | Iterable[Record]) -> RecordSource:
    """Return records themselves as a source; a source as it is."""
    return records if isinstance(records, RecordSource) else RecordList(records)


def group_key(record: Record) -> tuple[str, str, str | None]:
    """Return what is equal for all records of a group: workload, device, fingerprint."""
    fingerprint = (record.fingerprints or {}).get("template")
    return workload_key(record), canonical(record.device), fingerprint


def useful(records: Sequence[Record]) -> list[Record]:
    """Return the records of a group that decide what is built.

    These are all of final comparisons, in the order of the log, then the `MOST_TRIALS` fastest
    trials, the fastest first.
    """
    trials = [record for record in records if record.is_trial]
    return [r for r in records if not r.is_trial] + ranked(trials)[:MOST_TRIALS]


def _group(records: Sequence[Record]) -> RecordGroup:
    first = records[0]
    trials = [record for record in records if record.is_trial]
    times = [record.timestamp for record in records]
    return RecordGroup(
        template=first.template,
        args=first.args,
        constant=first.constant,
        target=first.target,
        device=first.device,
        fingerprint=(first.fingerprints or {}).get("template"),
        trials=len(trials),
        ok=sum(record.ok for record in trials),
        finals=len(records) - len(trials),
        best_s=min((record.cost_s for record in trials if record.ok), default=None),
        first_s=min(times),
        last_s=max(times),
    )
