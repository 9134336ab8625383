"""Groups of records: one workload and target, measured on one device by one version of a template.

A build first decides which groups it may use, and then reads only records of these. A source of
records answers both questions: a list in memory, or logs with an index beside them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

from records.best_of_group import MOST_TRIALS, BestOfGroup
from records.json_lines import canonical_json
from records.outline import Outline
from records.record import Record, to_plain, without_node


@dataclass(frozen=True, kw_only=True)
class RecordGroup:
    """What records have in common, and how many there are.

    `template`, `args`, `constant`, `target`: the workload.
    `device`: the device that they were measured on, as they describe it, without the machine that
        it was in.
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

    @cached_property
    def key(self) -> str:
        """What is equal for all records of the group, and only for these: see `group_key`."""
        return group_key(self)


# What tells of which group a record is.
Grouped = Record | Outline | RecordGroup


def identity(of: Grouped) -> dict[str, Any]:
    """Return what the records of a group have in common, by the names of `RecordGroup`."""
    return {
        "template": of.template,
        "args": of.args,
        "constant": of.constant,
        "target": of.target,
        "device": without_node(of.device),
        "fingerprint": of.fingerprint,
    }


def group_key(of: Grouped, any_version: bool = False) -> str:
    """Return what is equal for all records of a group: workload, target, device, fingerprint.

    `any_version`: without the fingerprint, as the rows of summaries are.
    """
    named = [*identity(of).values()]
    return canonical_json(named[:-1] if any_version else named)


@runtime_checkable
class RecordSource(Protocol):
    """Where records are looked up."""

    def groups(
        self, template: str | None = None, args: Mapping[str, Any] | None = None
    ) -> Sequence[RecordGroup]:
        """Return the groups of a template and its arguments, in order of first appearance.

        None stands for all.
        """

    def records_of(self, group: RecordGroup, most: int = MOST_TRIALS) -> list[Record]:
        """Return the best records of a group, see `useful`; an empty list for an unknown group."""


class RecordList:
    """Records in memory as a source."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._members: dict[str, list[Record]] = {}
        for record in records:
            self._members.setdefault(group_key(record), []).append(record)
        self._groups = [_group(group) for group in self._members.values()]

    def groups(
        self, template: str | None = None, args: Mapping[str, Any] | None = None
    ) -> Sequence[RecordGroup]:
        """Return the groups of a template and its arguments: see `RecordSource`."""
        return [
            group
            for group in self._groups
            if template in (None, group.template)
            and (args is None or group.args == to_plain(args, "args"))
        ]

    def records_of(self, group: RecordGroup, most: int = MOST_TRIALS) -> list[Record]:
        """Return the best records of a group: see `useful`."""
        return useful(self._members.get(group.key, []), most)


class _Merged:
    """Several sources as one, as if their records stood one after the other."""

    def __init__(self, sources: Sequence[RecordSource]) -> None:
        self._sources = sources

    def groups(
        self, template: str | None = None, args: Mapping[str, Any] | None = None
    ) -> Sequence[RecordGroup]:
        """Return the groups of a template and its arguments: see `RecordSource`."""
        found: dict[str, RecordGroup] = {}
        own = (source.groups(template, args) for source in self._sources)
        for group in itertools.chain.from_iterable(own):
            known = found.get(group.key)
            found[group.key] = group if known is None else _joined(known, group)
        return list(found.values())

    def records_of(self, group: RecordGroup, most: int = MOST_TRIALS) -> list[Record]:
        """Return the best records of a group: see `useful`."""
        found = (source.records_of(group, most) for source in self._sources)
        return useful(itertools.chain.from_iterable(found), most)


def merged(sources: Iterable[RecordSource]) -> RecordSource:
    """Return several sources as one."""
    found = list(sources)
    return found[0] if len(found) == 1 else _Merged(found)


def as_source(records: RecordSource | Iterable[Record]) -> RecordSource:
    """Return records themselves as a source; a source as it is."""
    return records if isinstance(records, RecordSource) else RecordList(records)


def args_key(args: Mapping[str, Any]) -> str:
    """Return what is equal for equal arguments, as Python compares them: 1, 1.0 and true."""
    return canonical_json(_without_types(to_plain(args, "args")))


def _without_types(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_types(inside) for name, inside in value.items()}
    if isinstance(value, list):
        return [_without_types(inside) for inside in value]
    whole = isinstance(value, bool) or (isinstance(value, float) and value.is_integer())
    return int(value) if whole else value


def useful(records: Iterable[Record], most: int = MOST_TRIALS) -> list[Record]:
    """Return the records of a group that decide what is built.

    These are all of final comparisons, in the order of the log, then the `most` fastest trials, the
    fastest first.
    """
    return _best(records, most).kept()


def _best(records: Iterable[Record], most: int = MOST_TRIALS) -> BestOfGroup[Record]:
    best = BestOfGroup[Record](most)
    for record in records:
        best.add(record, record)
    return best


def _group(records: Sequence[Record]) -> RecordGroup:
    best = _best(records)
    return RecordGroup(
        **identity(records[0]),
        trials=best.trials,
        ok=best.ok,
        finals=len(best.finals),
        best_s=min((cost_s for cost_s, _ in best.fastest()), default=None),
        first_s=best.first_s,
        last_s=best.last_s,
    )


def _joined(a: RecordGroup, b: RecordGroup) -> RecordGroup:
    costs = [cost for cost in (a.best_s, b.best_s) if cost is not None]
    return replace(
        a,
        trials=a.trials + b.trials,
        ok=a.ok + b.ok,
        finals=a.finals + b.finals,
        best_s=min(costs, default=None),
        first_s=min(a.first_s, b.first_s),
        last_s=max(a.last_s, b.last_s),
    )
