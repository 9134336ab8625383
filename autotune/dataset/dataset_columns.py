"""The columns of a data set except the features, and their values for a record.

Rows are split into training, validation and test by hashes, without random choice.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autotune.dataset.scan_logs import Group, compact, device_of
from autotune.dataset.spill_files import ProgramText
from autotune.reuse.task_finder import REASONS
from features import explain
from records import Record
from records.tables.table import DType, Field, Values, as_text

TRAIN, VALIDATION, TEST = "train", "validation", "test"
SPLITS = (TRAIN, VALIDATION, TEST)


def split_of(fingerprint: str) -> str:
    """Return the split of a workload: 80 % of them are for training, 10 % each for the others.

    It depends on the workload's fingerprint alone, so that a workload is in the same split in
    every export.
    """
    tenth = _number(fingerprint) % 10
    return VALIDATION if tenth == 8 else TEST if tenth == 9 else TRAIN


def device_splits(devices: Iterable[str]) -> dict[str, str]:
    """Return the split of each device.

    In order of their names' hashes, the last tenth, at least one, is for the test and, if there are
    three or more, as many before it for validation. Empty for fewer than two devices.
    """
    ordered = sorted(set(devices), key=lambda name: (_number(name), name))
    if len(ordered) < 2:
        return {}
    held = max(1, len(ordered) // 10)
    validation = held if len(ordered) > 2 else 0
    train = len(ordered) - held - validation
    kinds = [TRAIN] * train + [VALIDATION] * validation + [TEST] * held
    return dict(zip(ordered, kinds, strict=True))


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode(errors="backslashreplace")).digest()[:8])


# Replaces an index or a seed of more than 64 bits, which only logs of other tools have.
NOT_64_BITS = -1


@dataclass(frozen=True)
class Row:
    """A record and its context."""

    record: Record
    log: str  # File it is from.
    group: Group  # Its workload and target.
    split: str  # Of its workload.
    device_split: str | None  # Of its device.
    flops: float | None  # Floating-point operations of one run.
    missing: str | None  # Why it has no loop features.
    program: ProgramText | None

    @property
    def throughput(self) -> float:
        """Runs per second, 0 for a failure."""
        return 1.0 / self.record.cost_s if self.record.ok else 0.0

    @property
    def relative_throughput(self) -> float:
        """Throughput over the best of the same workload, target and device, 0 for a failure."""
        best_s = self.group.best_s.get(device_of(self.record))
        return best_s / self.record.cost_s if best_s is not None and self.record.ok else 0.0

    @property
    def gflops(self) -> float:
        """1e9 operations per second, NaN where the number of operations is not known."""
        return math.nan if self.flops is None else 1e-9 * self.flops * self.throughput


@dataclass(frozen=True)
class DatasetColumn:
    """A field and how a row gives its value."""

    field: Field
    value: Callable[[Row], Any]

    def values(self, rows: Sequence[Row]) -> Values:
        """Return the values of some rows as tables take them."""
        found = [self.value(row) for row in rows]
        if self.field.is_text:
            return [as_text(text) for text in found]
        if self.field.dtype == "int64":
            fits = (n if -(2**63) <= n < 2**63 else NOT_64_BITS for n in found)
            return np.array([*fits], np.int64)
        return np.array([math.nan if x is None else x for x in found], self.field.dtype)


def _costs(row: Row) -> tuple[float, ...]:
    return row.record.costs_s or (math.nan,)


def _error(key: str) -> Callable[[Row], str | None]:
    return lambda row: None if row.record.error is None else row.record.error[key]


def _fingerprint(key: str) -> Callable[[Row], str | None]:
    return lambda row: (row.record.fingerprints or {}).get(key)


def _plain(data: Mapping[str, Any]) -> str | None:
    return compact(data) if data else None


def _steps(row: Row) -> str | None:
    steps = row.record.steps
    if steps is None and row.program is not None:
        steps = row.program["steps"]
    return None if steps is None else compact(steps)


def _columns(
    role: str, *about: tuple[str, DType, str, str, Callable[[Row], Any]]
) -> list[DatasetColumn]:
    """Return columns, given their names, types, units, meanings and values."""
    return [
        DatasetColumn(Field(name, dtype, unit, meaning, role), value)
        for name, dtype, unit, meaning, value in about
    ]


_WHY = "; ".join(f"{code}: {meaning}" for code, meaning in REASONS.items())

# Columns of the measurement and its conditions.
RECORD = _columns(
    "record",
    ("log", "category", "", "file that the record is from", lambda r: r.log),
    ("workload", "category", "", "template and arguments", lambda r: str(r.group.workload)),
    ("template", "category", "", "name of the template", lambda r: r.record.template),
    ("args", "category", "", "its arguments, as JSON", lambda r: compact(r.record.args)),
    ("target", "category", "", "what was compiled for", lambda r: r.record.target),
    ("device", "category", "", "name of the device; in logs without one, the model that the "
     "target names", lambda r: device_of(r.record)),
    ("config_index", "int64", "1", "number of the configuration in its space "
     "(-1: beyond 64 bits)", lambda r: r.record.index),
    ("config", "string", "", "values of the knobs, as JSON",
     lambda r: compact(r.record.config["values"])),
    ("checked", "bool", "", "whether the answer was compared with the reference",
     lambda r: r.record.max_error is not None),
    ("max_error", "float64", "1", "largest absolute error of the answer; if checked, NaN and "
     "infinity are what was found", lambda r: r.record.max_error),
    ("raced", "bool", "", "whether timing stopped early, as it was clearly slower than the "
     "best", lambda r: r.record.raced),
    ("noise", "float64", "1", "relative noise of the machine at that time",
     lambda r: r.record.noise),
    ("build_s", "float64", "s", "time spent building", lambda r: r.record.build_s),
    ("run_s", "float64", "s", "time spent checking and timing", lambda r: r.record.run_s),
    ("seed", "int64", "1", "seed of the run (-1: beyond 64 bits)", lambda r: r.record.seed),
    ("timestamp", "float64", "s", "when it was measured, since 1970 (0: not known)",
     lambda r: r.record.timestamp),
    ("policy", "category", "", "how it was timed, as JSON", lambda r: _plain(r.record.policy)),
    ("device_details", "category", "", "what it ran on, as JSON",
     lambda r: _plain(r.record.device)),
    ("versions", "category", "", "versions of what shaped it, as JSON",
     lambda r: _plain(r.record.versions)),
    ("workload_fingerprint", "category", "", "digest of template and arguments; the split goes "
     "by it", lambda r: r.group.workload.fingerprint),
    ("space_fingerprint", "category", "", "digest of the knobs", _fingerprint("space")),
    ("template_fingerprint", "category", "", "digest of computation and schedule steps",
     _fingerprint("template")),
    ("code_fingerprint", "string", "", "digest of the finalised loops", _fingerprint("code")),
    ("features_missing", "category", "", f"why there are no features from loops, if so; {_WHY}",
     lambda r: r.missing),
)  # fmt: skip

# Columns with labels for learning.
LABELS = _columns(
    "label",
    ("ok", "bool", "", "whether the measurement succeeded", lambda r: r.record.ok),
    ("throughput", "float64", "1/s", "runs per second: 1 / cost_s, 0 for a failure",
     lambda r: r.throughput),
    ("relative_throughput", "float64", "1", "throughput over the best of the same workload, "
     "target and device in this data set, 0 for a failure", lambda r: r.relative_throughput),
    ("gflops", "float64", "1e9 operations/s", "speed, 0 for a failure, NaN where the template "
     "does not count operations or is not here", lambda r: r.gflops),
    ("cost_s", "float64", "s", "median of the repeats", lambda r: r.record.cost_s
     if r.record.ok else None),
    ("cost_min_s", "float64", "s", "shortest repeat", lambda r: min(_costs(r))),
    ("cost_max_s", "float64", "s", "longest repeat", lambda r: max(_costs(r))),
    ("cost_spread", "float64", "1", "interquartile range of the repeats over their median",
     lambda r: r.record.spread),
    ("repeats", "int64", "1", "number of repeats, 0 for a failure",
     lambda r: len(r.record.costs_s or ())),
    ("error_code", "category", "", "what failed, if something did", _error("code")),
    ("error_stage", "category", "", "where it failed", _error("stage")),
    ("error_message", "string", "", "what the failure said", _error("message")),
)  # fmt: skip

SPLIT, DEVICE_SPLIT = _columns(
    "split",
    ("split", "category", "", "train, validation or test, by the workload's fingerprint",
     lambda r: r.split),
    ("device_split", "category", "", "train, validation or test, by device; none where the "
     "device is not known", lambda r: r.device_split),
)  # fmt: skip

# Columns that --with-programs adds.
PROGRAM = _columns(
    "program",
    ("costs_s", "string", "s", "all repeats, as a JSON list; none for a failure",
     lambda r: compact(r.record.costs_s) if r.record.costs_s else None),
    ("steps", "string", "", "schedule steps as JSON: [primitive, stage, arguments...]", _steps),
    ("loops", "string", "", "lowered loops as text",
     lambda r: r.program and r.program["loops"]),
    ("source_hash", "string", "", "16 hexadecimal digits of the generated source's SHA-256",
     lambda r: r.program and r.program["source_hash"]),
)  # fmt: skip


def fixed_columns(device_split: bool = True, programs: bool = True) -> list[DatasetColumn]:
    """Return the columns other than features."""
    splits = [SPLIT, DEVICE_SPLIT] if device_split else [SPLIT]
    return [*RECORD, *splits, *LABELS, *(PROGRAM if programs else [])]


def feature_field(name: str) -> Field:
    """Return the field of a feature, named with its layout and version."""
    meaning, unit = explain(name)
    return Field(name, "float32", unit, meaning, "feature")
