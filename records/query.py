"""Queries on a list of records: those of a workload, the best, the latest final comparison."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from records.outline import Outline
from records.record import Record, canonical, to_plain


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


R = TypeVar("R", bound=Record | Outline)


def finals(records: Iterable[R]) -> list[R]:
    """Return the records of the latest final comparison, in the order in which they are given.

    A comparison with only failures has no result and does not count.
    """
    found = [(r.final["comparison"], r) for r in records if r.final is not None]
    timed = [pair for pair in reversed(found) if pair[1].ok]
    latest = max(timed, key=lambda pair: pair[1].timestamp, default=("", None))[0]
    return [record for comparison, record in found if comparison == latest]


def ranked(records: Iterable[R]) -> list[R]:
    """Return the successful records of one workload and target, the best to build first.

    The finalists of the latest final comparison come first, in its order. The trials follow by
    their median cost, earlier ones first if costs are equal. Because the smallest of many noisy
    times is too small, trials count only without a usable comparison. A configuration that failed
    in its latest comparison is left out.
    """
    found = list(records)
    compared = sorted(finals(found), key=lambda record: (record.final or {})["rank"])
    timed = [record for record in found if record.final is None and record.ok]
    by_cost = sorted(timed, key=lambda record: record.cost_s or 0.0)
    failed = _failed_in_finals(found)
    return [r for r in [*compared, *by_cost] if r.ok and _values_key(r) not in failed]


def _values_key(record: Record | Outline) -> str:
    return canonical(record.config["values"])


def _failed_in_finals(records: Iterable[Record | Outline]) -> set[str]:
    """Return the configurations that failed in the latest final comparison that they were in."""
    in_finals = [record for record in records if record.final is not None]
    by_time = sorted(in_finals, key=lambda record: record.timestamp)
    latest = {_values_key(record): record for record in by_time}
    return {config for config, record in latest.items() if not record.ok}
