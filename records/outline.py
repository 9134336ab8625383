"""The outline of a record: what indexes and tables need of a line, read without making a record."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from records.json_lines import parse_plain
from records.record import MAX_S, MIN_S, SCHEMA, Record
from records.record_errors import RecordError


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
    def ok(self) -> bool:
        """Whether the measurement succeeded."""
        return self.cost_s is not None

    @classmethod
    def of_line(cls, line: bytes) -> Outline:
        """Return the outline of a line; ValueError or RecursionError if it is no record.

        NewerSchemaError, a ValueError, if a later version wrote it.
        """
        data = parse_plain(line)
        if type(data) is dict:
            found = _quick(data)
            if found is not None:
                return found
        return cls.of_record(Record.from_line(line))

    @classmethod
    def of_record(cls, record: Record) -> Outline:
        """Return the outline of a record."""
        return cls(
            record.workload,
            record.target,
            record.config,
            record.device,
            (record.fingerprints or {}).get("template"),
            record.cost_s if record.ok else None,
            record.error,
            record.final,
            record.timestamp,
            record.seed,
        )


def outlines(lines: Iterable[bytes]) -> Iterator[Outline | RecordError]:
    """Yield the outline of each line that is not blank, or why it is no record."""
    for line in lines:
        if line.isspace():
            continue
        try:
            yield Outline.of_line(line)
        except RecordError as error:
            yield error
        except (ValueError, RecursionError) as error:
            yield RecordError(str(error))


def _quick(data: dict[str, Any]) -> Outline | None:
    """Return the outline of plain data, None if a record has to be made to know what it is."""
    get = data.get
    workload, target, config, device = get("workload"), get("target"), get("config"), get("device")
    costs, error, final = get("costs_s"), get("error"), get("final")
    timestamp, seed, prints = get("timestamp"), get("seed"), get("fingerprints")
    plain = (
        get("schema") in range(1, SCHEMA + 1)
        and type(workload) is dict
        and type(workload.get("template")) is str
        and workload["template"].isprintable()
        and type(workload.get("args")) is dict
        and workload.keys() <= {"template", "args"}
        and type(target) is str
        and target.isprintable()
        and type(config) is dict
        and type(config.get("index")) is int
        and type(config.get("values")) is dict
        and all(type(value) in (int, str, float, bool, list) for value in config["values"].values())
        and all(map(str.isprintable, (*workload["args"], *config["values"])))
        and type(device) is dict
        and _is_name(device.get("name"))
        and type(timestamp) in (int, float)
        and type(seed) is int
        and (prints is None or type(prints) is dict)
        and (final is None or type(final) is dict)
        and type(get("policy")) is dict
        and type(get("versions")) is dict
    )
    if not plain:
        return None
    fingerprint = None if prints is None else prints.get("template")
    if type(costs) is list and costs and error is None:
        for cost in costs:
            if type(cost) is not float or not MIN_S <= cost <= MAX_S:
                return None
        cost_s = costs[0] if len(costs) == 1 else statistics.median(costs)
    elif costs is None and type(error) is dict and type(error.get("code")) is str:
        cost_s = None
    else:
        return None
    return Outline(
        workload, target, config, device, fingerprint, cost_s, error, final, timestamp, seed
    )


def _is_name(name: object) -> bool:
    return name is None or (type(name) is str and name.isprintable())
