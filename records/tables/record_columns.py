"""The columns of records as a table, read line by line without making records."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from records.outline import LineParts, Shared, read_parts
from records.record import Record
from records.tables.table import Field, as_text

BEYOND_64_BITS = -1  # Stands for an index or a seed that no column holds.
NO_RANK = -1  # Of a trial.
_BLOCK = 1 << 13  # Rows that are kept as Python objects.

# What many records share, and its text.
_SHARED: tuple[tuple[Field, Callable[[Shared], str | None]], ...] = (
    (Field("template", "category", "", "name of the template"), lambda s: s.workload["template"]),
    (Field("args", "category", "", "its arguments, as JSON"), lambda s: _json(s.workload["args"])),
    (
        Field("constant", "category", "", "positions of inputs that did not change, as JSON"),
        lambda s: _json(s.workload.get("constant")),
    ),
    (Field("target", "category", "", "what was compiled for"), lambda s: s.target),
    (Field("device", "category", "", "name of the device"), lambda s: _name(s.device)),
    (
        Field("device_details", "category", "", "what it ran on, as JSON"),
        lambda s: _json(s.device),
    ),
    (Field("policy", "category", "", "how it was timed, as JSON"), lambda s: _json(s.policy)),
    (
        Field("versions", "category", "", "versions of what shaped it, as JSON"),
        lambda s: _json(s.versions),
    ),
)

# What each record has of its own, in the order of the rows below.
_OWN = (
    Field(
        "config_index",
        "int64",
        "1",
        "number of the configuration in its space (-1: beyond 64 bits)",
    ),
    Field("config", "string", "", "values of the knobs, as JSON"),
    Field("cost_s", "float64", "s", "median of the repeats"),
    Field("cost_min_s", "float64", "s", "shortest repeat"),
    Field("cost_max_s", "float64", "s", "longest repeat"),
    Field("repeats", "int64", "1", "number of repeats, 0 for a failure"),
    Field("error_code", "category", "", "what failed, if something did"),
    Field("error_stage", "category", "", "where it failed"),
    Field("error_message", "string", "", "what the failure said"),
    Field("comparison", "category", "", "the final comparison that it is of; none for a trial"),
    Field("rank", "int64", "1", "its rank in the final comparison, -1 for a trial"),
    Field("raced", "bool", "", "whether timing stopped early, as it was clearly slower"),
    Field("noise", "float64", "1", "relative noise of the machine at that time"),
    Field("max_error", "float64", "1", "largest absolute error of the answer"),
    Field("build_s", "float64", "s", "time spent building"),
    Field("run_s", "float64", "s", "time spent checking and timing"),
    Field("seed", "int64", "1", "seed of the run (-1: beyond 64 bits)"),
    Field("timestamp", "float64", "s", "when it was measured, since 1970"),
    Field("space_fingerprint", "category", "", "digest of the knobs"),
    Field("template_fingerprint", "category", "", "digest of computation and schedule steps"),
    Field("code_fingerprint", "string", "", "digest of the finalised loops"),
)

FIELDS = (
    Field("log", "category", "", "file that the record is from"),
    *(field for field, _ in _SHARED),
    *_OWN,
)

# A column: an array; or for texts a list, None where there is none; or, where most repeat, the
# distinct ones and their numbers (-1: none).
Column = npt.NDArray[Any] | list[str | None] | tuple[list[str], npt.NDArray[np.int32]]


class Columns:
    """The columns of `FIELDS` but the log, to which lines are added."""

    def __init__(self) -> None:
        self._rows: list[tuple[Any, ...]] = []
        self._blocks: list[list[Any]] = []
        self._shared: dict[tuple[str | None, ...], int] = {}  # Numbers by texts.
        # Numbers by identity, with the objects, so that these identities stay theirs.
        self._numbers: dict[int, tuple[int, Shared]] = {}
        self._texts: dict[str, dict[str, int]] = {f.name: {} for f in _OWN if _repeats(f)}
        self.count = 0

    def add_line(self, line: bytes) -> None:
        """Add a line; ValueError or RecursionError if it is no record."""
        parts = read_parts(line)
        row = _row_of_parts(parts) if isinstance(parts, LineParts) else _row_of_record(parts)
        self._add(parts.shared if isinstance(parts, LineParts) else _shared_of(parts), row)

    def add_record(self, record: Record) -> None:
        """Add a record."""
        self._add(_shared_of(record), _row_of_record(record))

    def _add(self, shared: Shared, row: tuple[Any, ...]) -> None:
        known = self._numbers.get(id(shared))
        if known is None:
            if len(self._numbers) > _BLOCK:
                self._numbers.clear()
            texts = tuple(as_text(text(shared)) for _, text in _SHARED)
            number = self._shared.setdefault(texts, len(self._shared))
            known = self._numbers[id(shared)] = number, shared
        self._rows.append((known[0], *row))
        self.count += 1
        if len(self._rows) >= _BLOCK:
            self._end_block()

    def _end_block(self) -> None:
        """Turn rows into arrays."""
        if not self._rows:
            return
        numbers, *values = zip(*self._rows, strict=True)
        self._rows = []
        block: list[Any] = [np.array(numbers, np.int32)]
        for field, column in zip(_OWN, values, strict=True):
            if _repeats(field):
                known = self._texts[field.name]
                block.append(_numbered(column, known))
            elif field.is_text:
                block.append(list(column))
            elif field.dtype == "int64":
                block.append(_integers(column))
            else:
                block.append(np.array(column, field.dtype))
        self._blocks.append(block)

    def columns(self) -> dict[str, Column]:
        """Return the columns by name."""
        self._end_block()
        numbers, *own = (
            [list(pieces) for pieces in zip(*self._blocks, strict=True)]
            if self._blocks
            else [[] for _ in range(len(_OWN) + 1)]
        )
        found: dict[str, Column] = {}
        shared = _joined(numbers, np.int32)
        for place, (field, _) in enumerate(_SHARED):
            known: dict[str, int] = {}
            codes = _numbered([texts[place] for texts in self._shared], known)
            found[field.name] = list(known), codes[shared] if len(codes) else shared
        for field, pieces in zip(_OWN, own, strict=True):
            if _repeats(field):
                found[field.name] = list(self._texts[field.name]), _joined(pieces, np.int32)
            elif field.is_text:
                found[field.name] = [text for piece in pieces for text in piece]
            else:
                found[field.name] = _joined(pieces, field.dtype)
        return found


def _repeats(field: Field) -> bool:
    return field.dtype == "category"


def _joined(pieces: Sequence[npt.NDArray[Any]], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    return np.concatenate(pieces) if pieces else np.zeros(0, dtype)


def _numbered(texts: Iterable[str | None], known: dict[str, int]) -> npt.NDArray[np.int32]:
    """Return the numbers of texts, -1 for none; new ones get the next number."""
    return np.array(
        [-1 if text is None else known.setdefault(text, len(known)) for text in texts], np.int32
    )


def _integers(values: Sequence[int]) -> npt.NDArray[np.int64]:
    try:
        return np.array(values, np.int64)
    except OverflowError:
        fits = (n if -(2**63) <= n < 2**63 else BEYOND_64_BITS for n in values)
        return np.array([*fits], np.int64)


_NONE = (None, None, None)


def _row_of_parts(parts: LineParts) -> tuple[Any, ...]:
    _, own, more, text = parts
    costs, prints, get = own.get("costs_s"), more.get("fingerprints"), more.get
    error = own.get("error")
    config = own["config"]
    max_error = get("max_error")
    return (
        config["index"],
        _values_text(text, config["values"]),
        *(_NO_COSTS if costs is None else _costs(costs)),
        *(_NONE if error is None else _error(error)),
        None,
        NO_RANK,
        get("raced") is True,
        get("noise", math.nan),
        math.nan if max_error is None else max_error,
        get("build_s", math.nan),
        get("run_s", math.nan),
        more["seed"],
        more["timestamp"],
        *(_NONE if prints is None else _prints(prints)),
    )


def _row_of_record(record: Record) -> tuple[Any, ...]:
    final = record.final
    numbers = (record.noise, record.max_error, record.build_s, record.run_s)
    return (
        record.index,
        as_text(_json(record.config["values"])),
        *(_NO_COSTS if record.costs_s is None else _costs(record.costs_s)),
        *(_NONE if record.error is None else _error(record.error)),
        None if final is None else as_text(final["comparison"]),
        NO_RANK if final is None else final["rank"],
        record.raced,
        *(math.nan if number is None else number for number in numbers),
        record.seed,
        record.timestamp,
        *(_NONE if record.fingerprints is None else _prints(record.fingerprints)),
    )


_VALUES = b'"values":'
_NO_COSTS = (math.nan, math.nan, math.nan, 0)


def _costs(costs: Sequence[float]) -> tuple[float, float, float, int]:
    ordered, count = sorted(costs), len(costs)
    middle = count // 2
    median = ordered[middle] if count % 2 else (ordered[middle - 1] + ordered[middle]) / 2
    return median, ordered[0], ordered[-1], count


def _error(error: Mapping[str, Any]) -> tuple[str | None, ...]:
    return as_text(error["code"]), as_text(error["stage"]), as_text(error["message"])


def _prints(prints: Mapping[str, str]) -> tuple[str | None, ...]:
    return prints.get("space"), prints.get("template"), prints.get("code")


def _values_text(config: bytes, values: Mapping[str, Any]) -> str | None:
    """Return the knob values as JSON; the text of a line is that already, unless it has escapes."""
    begin = config.find(_VALUES)
    if begin < 0 or b"\\" in config or not config.isascii():
        return as_text(json.dumps(values, separators=(",", ":"), ensure_ascii=False))
    return config[begin + len(_VALUES) : -1].decode("ascii")


def _shared_of(record: Record) -> Shared:
    return Shared(record.workload, record.target, record.policy, record.device, record.versions)


def _json(data: Any) -> str | None:
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False) if data else None


def _name(device: Mapping[str, Any]) -> str | None:
    name = device.get("name")
    return name if isinstance(name, str) else None
