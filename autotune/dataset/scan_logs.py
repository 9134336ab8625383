"""Scans logs, and groups their records by workload and target."""

from __future__ import annotations

import itertools
import json
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autotune.task.workload import Workload
from features import KnobStatistics
from records import Record, RecordError, workload_key
from records.formats import refuse_newer, stream_any


@dataclass
class Group:
    """Records of one workload, target and width of vectors, in the order of the logs."""

    number: int
    workload: Workload
    target: str
    # Width of the vectors of the processor that they were measured on, where it is recorded.
    vector_bytes: int | None
    records: int = 0  # Number of records.
    # Knob values of each record as JSON; until `free`.
    configs: list[str] = field(default_factory=list)
    # Fingerprint of the template that each record was made by; until `free`.
    fingerprints: list[str | None] = field(default_factory=list)
    best_s: dict[str | None, float] = field(default_factory=dict)  # Lowest cost by device.

    def free(self) -> None:
        """Free the memory that the single records take."""
        self.configs, self.fingerprints = [], []


class LogIndex:
    """Contents of some logs. Only the group and the knob values of a record stay in memory.

    logs: in any format that can be read.

    RecordError if a log cannot be read.
    """

    def __init__(self, logs: Sequence[Path]) -> None:
        self._logs = tuple(logs)
        self._lengths: list[int] = []
        self._numbers = array("l")
        self.groups: list[Group] = []  # in order of appearance
        self.devices: Counter[str | None] = Counter()  # records by device
        self.errors: Counter[str] = Counter()  # failures by code
        self.raced = 0  # records whose timing stopped early
        self.knobs = KnobStatistics()
        groups: dict[tuple[str, int | None], Group] = {}
        for log in self._logs:
            refuse_newer(log)  # before much time is spent on the others
        for log in self._logs:
            before = len(self)
            for record in _trials(log):
                self._add(record, groups)
            self._lengths.append(len(self) - before)

    def __len__(self) -> int:
        return len(self._numbers)

    def workloads(self) -> dict[tuple[str, str], list[Group]]:
        """Return the groups of each workload and target."""
        found: dict[tuple[str, str], list[Group]] = {}
        for group in self.groups:
            found.setdefault((str(group.workload), group.target), []).append(group)
        return found

    def lengths(self) -> dict[str, int]:
        """Return the number of records of each log."""
        return {str(log): n for log, n in zip(self._logs, self._lengths, strict=True)}

    def reread(self) -> Iterator[tuple[Path, Record, Group]]:
        """Read the logs again; yield each record with its log and its group.

        RecordError if a log has lost some of them meanwhile.
        """
        numbers = iter(self._numbers)
        for log, length in zip(self._logs, self._lengths, strict=True):
            found = 0
            for record in itertools.islice(_trials(log), length):
                found += 1
                yield log, record, self.groups[next(numbers)]
            if found < length:
                raise RecordError(f"{log} was cut or replaced while it was exported: try again")

    def _add(self, record: Record, groups: dict[tuple[str, int | None], Group]) -> None:
        width = record.device.get("vector_bytes")
        key = workload_key(record), width if isinstance(width, int) else None
        group = groups.get(key)
        if group is None:
            workload = Workload(record.template, record.args, record.constant)
            group = groups[key] = Group(len(self.groups), workload, record.target, key[1])
            self.groups.append(group)
        self._numbers.append(group.number)
        values = record.config["values"]
        group.records += 1
        group.configs.append(compact(values))
        group.fingerprints.append(record.fingerprint)
        self.knobs.add(values)
        device = device_of(record)
        self.devices[device] += 1
        self.raced += record.raced
        if record.error is not None:
            self.errors[record.error["code"]] += 1
        else:
            best = group.best_s.get(device, record.cost_s)
            group.best_s[device] = min(best, record.cost_s)


def _trials(log: Path) -> Iterator[Record]:
    """Yield the records of a log, without final comparisons, which measure the same again."""
    return (record for record in stream_any(log) if record.is_trial)


def device_of(record: Record) -> str | None:
    """Return the device of a record: its name, else the model in its target."""
    name = record.device.get("name")
    if isinstance(name, str) and name:
        return name
    models = [word for word in record.target.split() if word.startswith("-model=")]
    return models[0].removeprefix("-model=") if models else None


def compact(data: Mapping[str, Any] | Sequence[Any]) -> str:
    """Return plain data as JSON without spaces."""
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False)
