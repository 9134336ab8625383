"""Queries on a list of records: those of a workload, the best, the measured indices, a summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from records.record import Record, config_key, to_plain, workload_key


def select(
    records: Iterable[Record],
    template: str | None = None,
    args: Mapping[str, Any] | None = None,
    target: str | None = None,
    constant: Sequence[int] | None = None,
) -> list[Record]:
    """Return the records of this template, exactly these arguments, target and constant inputs.

    An argument of None selects all; but with `args` and without `constant`, those without constant
    inputs. Order is kept; tuples in `args` equal lists.
    """
    wanted = None if args is None else to_plain(args, "args")
    if constant is None and args is not None:
        constant = ()
    return [
        record
        for record in records
        if (template is None or record.template == template)
        and (wanted is None or record.args == wanted)
        and (target is None or record.target == target)
        and (constant is None or record.constant == tuple(constant))
    ]


def best(
    records: Iterable[Record],
    template: str | None = None,
    args: Mapping[str, Any] | None = None,
    target: str | None = None,
    constant: Sequence[int] | None = None,
) -> Record | None:
    """Return the record among those selected that a build uses, or None; see `ranked`."""
    return next(iter(ranked(select(records, template, args, target, constant))), None)


def finals(records: Iterable[Record]) -> list[Record]:
    """Return the records of the latest final comparison, in the order in which they are given.

    A comparison with only failures has no result and does not count.
    """
    found = [(r.final["comparison"], r) for r in records if r.final is not None]
    timed = [pair for pair in reversed(found) if pair[1].ok]
    latest = max(timed, key=lambda pair: pair[1].timestamp, default=("", None))[0]
    return [record for comparison, record in found if comparison == latest]


def ranked(records: Iterable[Record]) -> list[Record]:
    """Return the successful records of one workload and target, the best to build first.

    The finalists of the latest final comparison come first, in its order. The trials follow by
    their median cost, earlier ones first if costs are equal. Because the smallest of many noisy
    times is too small, trials count only without a usable comparison. A configuration that failed
    in its latest comparison is left out.
    """
    found = list(records)
    compared = sorted(finals(found), key=lambda record: (record.final or {})["rank"])
    timed = [record for record in found if record.is_trial and record.ok]
    by_cost = sorted(timed, key=lambda record: record.cost_s)
    failed = _failed_in_finals(found)
    return [r for r in [*compared, *by_cost] if r.ok and config_key(r) not in failed]


def _failed_in_finals(records: Iterable[Record]) -> set[str]:
    """Return the configurations that failed in the latest final comparison that they were in."""
    in_finals = [record for record in records if not record.is_trial]
    by_time = sorted(in_finals, key=lambda record: record.timestamp)
    latest = {config_key(record): record for record in by_time}
    return {config for config, record in latest.items() if not record.ok}


@dataclass(frozen=True)
class SummaryRow:
    """Summary of a log for one workload on one target.

    `trials` counts its trials, `ok` the successful ones, `failures` the others by error code.
    `best_cost_s` (seconds) and `best_index` are those of `best`, None if nothing succeeded;
    `compared` says whether a final comparison has chosen it. `first_s` and `last_s` are the
    earliest and latest time stamp (Unix time in seconds). `constant` are the positions of inputs
    that did not change.
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


def summary(records: Iterable[Record]) -> list[SummaryRow]:
    """Return one row per workload and target, in order of first appearance."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(workload_key(record), []).append(record)
    return [_row(group) for group in groups.values()]


def _row(group: list[Record]) -> SummaryRow:
    winner = best(group)
    times = [record.timestamp for record in group]
    measured = [record for record in group if record.is_trial]
    return SummaryRow(
        template=group[0].template,
        args=group[0].args,
        target=group[0].target,
        trials=len(measured),
        ok=sum(record.ok for record in measured),
        failures=dict(Counter(r.error["code"] for r in measured if r.error is not None)),
        best_cost_s=None if winner is None else winner.cost_s,
        best_index=None if winner is None else winner.index,
        first_s=min(times),
        last_s=max(times),
        compared=winner is not None and winner.final is not None,
        constant=group[0].constant,
    )
