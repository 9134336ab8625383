"""The outline of a record: the fields that indexes and tables need.

In: a line of a log. Out: an `Outline`, without the cost of making and checking a `Record`.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from records.record import Record


class Outline(NamedTuple):
    """A record without its schedule, policy and resources."""

    workload: Mapping[str, Any]
    target: str
    config: Mapping[str, Any]
    device: Mapping[str, Any]
    fingerprint: str | None  # Of the template.
    cost_s: float | None  # Median of the costs, in seconds; None for a failure.
    error: Mapping[str, Any] | None
    final: Mapping[str, Any] | None
    timestamp: float
    seed: int

    @property
    def template(self) -> str:
        """Name of the template."""
        return cast(str, self.workload["template"])

    @property
    def args(self) -> Mapping[str, Any]:
        """Arguments of the template."""
        return cast(Mapping[str, Any], self.workload["args"])

    @property
    def constant(self) -> tuple[int, ...]:
        """Positions of the inputs that did not change."""
        return tuple(self.workload.get("constant", ()))

    @property
    def ok(self) -> bool:
        """Whether the measurement succeeded."""
        return self.cost_s is not None

    @classmethod
    def of_line(cls, line: bytes) -> Outline:
        """Return the outline of a line; ValueError or RecursionError if it is no record.

        NewerSchemaError, a ValueError, if a later version wrote it.
        """
        from records.trial_lines import read_trial  # slow import

        found = read_trial(line)
        if isinstance(found, Record):
            return cls.of_record(found)
        shared, own = found
        return cls(
            shared.workload,
            shared.target,
            {"index": own.config.index, "values": own.config.values},
            shared.device,
            None if own.fingerprints is None else own.fingerprints.get("template"),
            None if own.costs_s is None else statistics.median(own.costs_s),
            own.error,
            None,
            own.timestamp,
            own.seed,
        )

    @classmethod
    def of_record(cls, record: Record) -> Outline:
        """Return the outline of a record."""
        return cls(
            record.workload,
            record.target,
            record.config,
            record.device,
            record.fingerprint,
            record.cost_s if record.ok else None,
            record.error,
            record.final,
            record.timestamp,
            record.seed,
        )
