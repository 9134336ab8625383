"""The columns of records as a table, read line by line without making records."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from records.json_lines import compact_json
from records.record import Record
from records.tables.table import Field, as_text
from records.trial_lines import Shared, Trial, read_trial

BEYOND_64_BITS = -1  # Stands for an index or a seed that no column holds.
NO_RANK = -1  # Of a trial.
_MOST_SHARED = 1 << 13  # Objects that are remembered.
_BLOCK = 1 << 8  # Rows that are kept as Python objects: few, so that they stay in the caches.

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

# Columns that differ from record to record, in the order of the rows below.
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

# A column: an array; or texts in UTF-8, each with NUL behind it, empty where there is none; or,
# where most repeat, the distinct ones and their numbers (-1: none).
Column = npt.NDArray[Any] | bytes | tuple[list[str], npt.NDArray[np.int32]]


class _Row(NamedTuple):
    """A record, and where it has what its line keeps in other places."""

    shared: Shared
    own: Trial | Record
    number: int  # Of the configuration.
    values: Mapping[str, Any]


class Columns:
    """The columns of `FIELDS` but the log, to which lines are added."""

    def __init__(self) -> None:
        self._rows: list[_Row] = []
        self._blocks: dict[str, list[Any]] = {field.name: [] for field in _OWN}
        self._shared: dict[tuple[str | None, ...], int] = {}  # Numbers by texts.
        self._shared_blocks: list[npt.NDArray[np.int32]] = []
        # Numbers by identity, with the objects, so that these identities stay theirs.
        self._numbers: dict[int, tuple[int, Shared]] = {}
        self._texts: dict[str, dict[str, int]] = {f.name: {} for f in _OWN if _repeats(f)}
        self.count = 0

    def add_line(self, line: bytes) -> None:
        """Add a line; ValueError or RecursionError if it is no record."""
        found = read_trial(line)
        if isinstance(found, Record):
            self.add_record(found)
        else:
            shared, trial = found
            self._add(_Row(shared, trial, trial.config.index, trial.config.values))

    def add_record(self, record: Record) -> None:
        """Add a record."""
        self._add(_Row(Shared.of_record(record), record, record.index, record.config["values"]))

    def _add(self, row: _Row) -> None:
        self._rows.append(row)
        self.count += 1
        if len(self._rows) >= _BLOCK:
            self._end_block()

    def _number_of(self, shared: Shared) -> int:
        known = self._numbers.get(id(shared))
        if known is None:
            if len(self._numbers) >= _MOST_SHARED:
                self._numbers.clear()
            texts = tuple(text(shared) for _, text in _SHARED)
            number = self._shared.setdefault(texts, len(self._shared))
            known = self._numbers[id(shared)] = number, shared
        return known[0]

    def _end_block(self) -> None:
        """Turn rows into arrays and texts."""
        if not self._rows:
            return
        values = _values_of(self._rows)
        numbers = [self._number_of(row.shared) for row in self._rows]
        self._shared_blocks.append(np.array(numbers, np.int32))
        self._rows = []
        for field in _OWN:
            found = values[field.name]
            if _repeats(field):
                found = _numbered(found, self._texts[field.name])
            elif field.is_text:
                found = "\0".join([*(as_text(text) or "" for text in found), ""]).encode()
            elif field.dtype == "int64":
                found = _integers(found)
            else:
                found = np.asarray(found, field.dtype)
            self._blocks[field.name].append(found)

    def columns(self) -> dict[str, Column]:
        """Return the columns by name."""
        self._end_block()
        found: dict[str, Column] = {}
        shared = _joined(self._shared_blocks, np.int32)
        for place, (field, _) in enumerate(_SHARED):
            known: dict[str, int] = {}
            codes = _numbered([texts[place] for texts in self._shared], known)
            found[field.name] = list(known), codes[shared] if len(codes) else shared
        for field in _OWN:
            pieces = self._blocks.pop(field.name)
            if _repeats(field):
                found[field.name] = list(self._texts[field.name]), _joined(pieces, np.int32)
            elif field.is_text:
                found[field.name] = b"".join(pieces)
            else:
                found[field.name] = _joined(pieces, field.dtype)
        return found


def _repeats(field: Field) -> bool:
    return field.dtype == "category"


def _joined(pieces: Sequence[npt.NDArray[Any]], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    return np.concatenate(pieces) if pieces else np.zeros(0, dtype)


def _numbered(texts: Sequence[str | None], known: dict[str, int]) -> npt.NDArray[np.int32]:
    """Return the numbers of texts, -1 for none; new ones get the next number."""
    numbers: dict[str | None, int] = {}
    for text in dict.fromkeys(texts):
        clean = as_text(text)
        numbers[text] = -1 if clean is None else known.setdefault(clean, len(known))
    return np.array([numbers[text] for text in texts], np.int32)


def _integers(values: Sequence[int]) -> npt.NDArray[np.int64]:
    try:
        return np.array(values, np.int64)
    except OverflowError:
        fits = (n if -(2**63) <= n < 2**63 else BEYOND_64_BITS for n in values)
        return np.array([*fits], np.int64)


def _values_of(rows: Sequence[_Row]) -> dict[str, Any]:
    """Return the values of rows by the names of the columns, None for what is not known."""
    own = [row.own for row in rows]
    errors = [one.error for one in own]
    finals = [one.final for one in own]
    prints = [one.fingerprints or {} for one in own]
    return {
        "config_index": [row.number for row in rows],
        "config": [_json(row.values) for row in rows],
        **_costs([one.costs_s or () for one in own]),
        **{
            f"error_{name}": [None if error is None else error[name] for error in errors]
            for name in ("code", "stage", "message")
        },
        "comparison": [None if final is None else final["comparison"] for final in finals],
        "rank": [NO_RANK if final is None else final["rank"] for final in finals],
        "raced": [one.raced for one in own],
        **{name: [getattr(one, name) for one in own] for name in _NUMBERS},
        **{
            f"{name}_fingerprint": [texts.get(name) for texts in prints]
            for name in ("space", "template", "code")
        },
    }


_NUMBERS = ("noise", "max_error", "build_s", "run_s", "seed", "timestamp")


def _costs(costs: Sequence[Sequence[float]]) -> dict[str, npt.NDArray[Any]]:
    """Return the columns of costs; median, least and largest are NaN where there are none."""
    repeats = np.array([len(own) for own in costs], np.int64)
    starts = np.cumsum(repeats) - repeats
    flat = np.fromiter(itertools.chain.from_iterable(costs), np.float64, int(repeats.sum()))
    median, least, largest = np.full((3, len(costs)), math.nan)
    for count in np.unique(repeats[repeats > 0]):
        rows = np.flatnonzero(repeats == count)
        values = np.sort(flat[starts[rows, None] + np.arange(count)], axis=1)
        median[rows] = (values[:, (count - 1) // 2] + values[:, count // 2]) / 2
        least[rows], largest[rows] = values[:, 0], values[:, -1]
    return {"cost_s": median, "cost_min_s": least, "cost_max_s": largest, "repeats": repeats}


def _json(data: Any) -> str | None:
    return compact_json(data) if data else None


def _name(device: Mapping[str, Any]) -> str | None:
    name = device.get("name")
    return name if isinstance(name, str) else None
