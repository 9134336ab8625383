"""Record: one measurement, and its form as one line of JSON.

A record has costs in seconds or an error, never both, and never a number for a failure. The
constructor checks its values, both from measurements and from files.
"""

from __future__ import annotations

import contextlib
import json
import math
import statistics
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, cast

from records.json_lines import has_rounded, parse_json, parse_plain
from records.record_checks import MAX_S as MAX_S
from records.record_checks import MIN_S as MIN_S
from records.record_checks import check, read_number, short
from records.record_checks import expect as expect
from records.record_checks import to_plain as to_plain
from records.record_errors import NewerSchemaError, RecordError

SCHEMA = 1  # Version of the line format; a reader refuses higher ones.


@dataclass(frozen=True, kw_only=True)
class Record:
    """One measurement of one configuration of one workload on one target.

    Parameters
    ----------
    workload : mapping
        ``{"template": str, "args": {name: value}}``; with ``"constant": [int]``, the positions of
        inputs that did not change, if there were any.
    target : str
        The target, for instance ``"cuda -arch=sm_90"``.
    config : mapping
        ``{"index": int, "values": {knob: value}}``; the index counts in the space whose
        fingerprint is in `fingerprints`, the values mean the same everywhere.
    costs_s : sequence of float, optional
        Seconds per run, one number per repeat; finite and positive.
    error : mapping, optional
        ``{"code": str, "stage": str, "message": str}``. Exactly one of `costs_s` and `error`.
    policy, device, versions : mapping
        Settings of the measurement, the device, and versions of packages.
    seed : int
        Seed of the run.
    timestamp : float
        Unix time in seconds; by default now.
    fingerprints : mapping, optional
        Hexadecimal digests under "space", "template" and "code".
    build_s, run_s : float, optional
        Seconds spent building, and checking and timing.
    max_error : float, optional
        Largest error against the reference; may be infinite or NaN.
    raced : bool
        Whether timing stopped early, as the configuration was clearly slower than the best.
    noise : float, optional
        Relative noise of the machine at that time, >= 0.
    kernels : list of mapping, optional
        Resources of each GPU kernel: "name", "registers", "spill_store_bytes", "spill_load_bytes"
        and "stack_bytes" of a thread, "shared_bytes" of a block.
    clocks : mapping, optional
        A GPU's clocks in MHz when it was timed: "sm_mhz", "memory_mhz".
    steps : list, optional
        Schedule steps as data.
    final : mapping, optional
        Says that these are the times of a comparison at the end of a run, one cost per round, and
        not those of a trial: "comparison", a text that all records of one comparison share; "rank",
        0 for the one that it chose; "rounds", the numbers of the rounds that the costs are of,
        counted from 1 (without it: 1, 2, ...); "nodes", where each of them was, if not all on one;
        "over_default", how many times as fast as the default configuration it was, and "range", two
        numbers around that, or None where there is no ratio.

    Raises
    ------
    RecordError
        If a field is missing, of the wrong type, or not expressible in JSON. Tuples become
        lists and NumPy's numbers Python's, so that a record equals its reread line.
    """

    workload: Mapping[str, Any]
    target: str
    config: Mapping[str, Any]
    costs_s: tuple[float, ...] | None = None
    error: Mapping[str, str] | None = None
    policy: Mapping[str, Any] = field(default_factory=dict)
    device: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, Any] = field(default_factory=dict)
    seed: int
    timestamp: float = field(default_factory=time.time)
    fingerprints: Mapping[str, str] | None = None
    build_s: float | None = None
    run_s: float | None = None
    max_error: float | None = None
    raced: bool = False
    noise: float | None = None
    kernels: list[Any] | None = None
    clocks: Mapping[str, Any] | None = None
    steps: list[Any] | None = None
    final: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            # The one number that may be infinite or NaN is kept out of JSON's way.
            plain = read_number(value) if f.name == "max_error" else to_plain(value, f.name)
            object.__setattr__(self, f.name, plain)
        check(self)
        if self.costs_s is not None:
            object.__setattr__(self, "costs_s", tuple(float(cost) for cost in self.costs_s))

    def __hash__(self) -> int:
        return hash(self.to_json_line())

    @property
    def ok(self) -> bool:
        """Whether the measurement succeeded."""
        return self.costs_s is not None

    @property
    def is_trial(self) -> bool:
        """Whether it is a trial of a search, and not of a final comparison."""
        return self.final is None

    @property
    def cost_s(self) -> float:
        """Median of the costs, in seconds; RecordError if the measurement failed."""
        if self.costs_s is None:
            raise RecordError("a failed measurement has no cost; check `record.ok` first")
        return statistics.median(self.costs_s)

    @property
    def spread(self) -> float | None:
        """Relative spread of the costs; None for a failure, and for fewer than two repeats."""
        return None if self.costs_s is None else relative_spread(self.costs_s)

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
    def fingerprint(self) -> str | None:
        """Of the template; None where it has none."""
        return (self.fingerprints or {}).get("template")

    @property
    def index(self) -> int:
        """Index of the configuration in its space."""
        return cast(int, self.config["index"])

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain data, in the order of the line format."""
        data: dict[str, Any] = {"schema": SCHEMA}
        for f in fields(self):
            value = getattr(self, f.name)
            if value is not None and value is not False:  # a flag is mentioned where it is set
                data[f.name] = list(value) if f.name == "costs_s" else value
        if self.max_error is not None and not math.isfinite(self.max_error):
            data["max_error"] = str(self.max_error)  # "inf", "nan": JSON has no such numbers
        return data

    def to_json_line(self) -> str:
        """Return the record as one line of JSON, without the newline."""
        return json.dumps(self.to_json(), allow_nan=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, data: object) -> Record:
        """Build a record from parsed JSON; unknown keys are ignored.

        Raises
        ------
        RecordError
            If `data` is no record; `NewerSchemaError` if a later version wrote it.
        """
        return cls(**_fields_of(data))

    @classmethod
    def from_line(cls, line: bytes) -> Record:
        """Build a record from a line of JSON; otherwise as `from_json`.

        ValueError or RecursionError if the line is no JSON.
        """
        data = parse_plain(line)
        if isinstance(data, dict) and not has_rounded(data.get("workload"), data.get("config")):
            with contextlib.suppress(RecordError):  # the slow way says what is wrong
                return cls._of_plain(data)
        return cls.from_json(parse_json(line))

    @classmethod
    def _of_plain(cls, data: object) -> Record:
        """Build a record from what `parse_plain` returned: its values need not be converted."""
        record = object.__new__(cls)
        given = _fields_of(data)
        for f in _FIELDS:
            object.__setattr__(record, f.name, given.get(f.name, f.default))
        if record.max_error is not None:
            object.__setattr__(record, "max_error", read_number(record.max_error))
        check(record)
        if record.costs_s is not None:
            object.__setattr__(record, "costs_s", tuple(map(float, record.costs_s)))
        return record


_FIELDS = fields(Record)
_REQUIRED = [f.name for f in _FIELDS if f.default is MISSING]  # a line has all of these


def _fields_of(data: object) -> dict[str, Any]:
    """Return the fields of a record in parsed JSON; RecordError if it is none."""
    if not isinstance(data, Mapping):
        raise RecordError(f"a record is a JSON object, not {short(data)}")
    schema = data.get("schema")
    if type(schema) is not int or schema < 1:
        raise RecordError(f"schema must be an int >= 1, not {short(schema)}")
    if schema > SCHEMA:
        raise NewerSchemaError(
            f"record of schema {schema}, but this version reads up to {SCHEMA}; upgrade to read it"
        )
    if missing := [name for name in _REQUIRED if name not in data]:
        raise RecordError(f"record without {', '.join(missing)}")
    return {f.name: data[f.name] for f in _FIELDS if f.name in data}


def relative_spread(costs_s: Collection[float]) -> float | None:
    """Return the interquartile range of some costs over their median; None for fewer than two."""
    if len(costs_s) < 2:
        return None
    low, middle, high = statistics.quantiles(costs_s, n=4, method="inclusive")
    return (high - low) / middle


def workload_key(record: Record) -> str:
    """Return a stable string that is equal for records of the same workload and target."""
    return make_workload_key(record.template, record.args, record.target, record.constant)


def make_workload_key(
    template: str, args: Mapping[str, Any], target: str, constant: Sequence[int] = ()
) -> str:
    """Return the key that `workload_key` gives for records of this workload and target."""
    data = {"args": args, "target": target, "template": template}
    return canonical({**data, "constant": list(constant)} if constant else data)


def config_key(record: Record) -> str:
    """Return a stable string that is equal for records of the same knob values."""
    return canonical(record.config["values"])


def without_node(device: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a device without the machine that it was in: devices that are alike are one kind."""
    if "node" not in device:
        return device
    return {name: value for name, value in device.items() if name != "node"}


def canonical(data: object) -> str:
    """Return a stable text of plain data, whatever the order of its keys."""
    return json.dumps(to_plain(data, "key"), sort_keys=True, separators=(",", ":"))
