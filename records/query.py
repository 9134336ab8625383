"""Questions to a list of records: which belong to a workload, which is best, what was measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from records.record import Record, to_plain, workload_key


def select(
    records: Iterable[Record],
    template: str | None = None,
    args: Mapping[str, Any] | None = None,
    target: str | None = None,
) -> list[Record]:
    """Return the records of this template, exactly these arguments, and this target.

    What is None is not asked for. Order is kept; tuples in `args` equal lists.
    """
    wanted = None if args is None else to_plain(args, "args")
    return [
        record
        for record in records
        if (template is None or record.template == template)
        and (wanted is None or record.args == wanted)
        and (target is None or record.target == target)
    ]


def best(
    records: Iterable[Record],
    template: str | None = None,
    args: Mapping[str, Any] | None = None,
    target: str | None = None,
) -> Record | None:
    """Return the successful record of lowest median cost among those selected, or None.

    The first of equals wins.
    """
    successes = (record for record in select(records, template, args, target) if record.ok)
    return min(successes, key=lambda record: record.cost_s, default=None)


def measured_indices(
    records: Iterable[Record],
    template: str | None = None,
    args: Mapping[str, Any] | None = None,
    target: str | None = None,
    space: str | None = None,
) -> list[int]:
    """Return the config indices among the selected records, failures included; unique, ascending.

    Indices count in a space: `space` keeps only records made in the space of that fingerprint.
    """
    return sorted(
        {
            record.index
            for record in select(records, template, args, target)
            if space is None or (record.fingerprints or {}).get("space") == space
        }
    )


@dataclass(frozen=True)
class SummaryRow:
    """What a log holds about one workload on one target.

    `trials` counts records, `ok` the successful ones, `failures` the others by error code.
    `best_cost_s` (seconds) and `best_index` are None if nothing succeeded. `first_s` and `last_s`
    are the earliest and latest time stamp (Unix time in seconds).
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


def summary(records: Iterable[Record]) -> list[SummaryRow]:
    """Return one row per workload and target, in order of first appearance."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(workload_key(record), []).append(record)
    return [_row(group) for group in groups.values()]


def _row(group: list[Record]) -> SummaryRow:
    winner = best(group)
    times = [record.timestamp for record in group]
    return SummaryRow(
        template=group[0].template,
        args=group[0].args,
        target=group[0].target,
        trials=len(group),
        ok=sum(record.ok for record in group),
        failures=dict(Counter(r.error["code"] for r in group if r.error is not None)),
        best_cost_s=None if winner is None else winner.cost_s,
        best_index=None if winner is None else winner.index,
        first_s=min(times),
        last_s=max(times),
    )
