"""Kernel Tuner's cache files: one object with the knobs and every configuration measured.

Times are milliseconds. What failed has a text in place of the time or, in older files, a huge
number; a file that a run left open lacks its end.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from records.formats.malformed import as_number, as_object
from records.formats.one_workload import described, description, expanded, joined, shape_of
from records.formats.outcomes import (
    is_number,
    outcome_of,
    seconds_since_1970,
    times_ms,
    timestamp_of,
    written_error,
)
from records.formats.skipped import SkippedParts
from records.record import Record
from records.record_errors import RecordError

SCHEMA_VERSION = "1.1.0"  # of the cache files that are written
_READ = re.compile(r"1\.\d+\.\d+")  # the versions that are read; older files have none

_RUN_TIMES = ("verification_time", "benchmark_time")
_ERROR_CONFIGS = ("ErrorConfig", "InvalidConfig", "CompilationFailedConfig", "RuntimeFailedConfig")
_CACHE = re.compile(r'"cache"\s*:\s*\{')
_KEY = re.compile(r'[\s,]*+"((?:[^"\\]|\\.)*)"\s*:\s*')
# Between two entries, which have lines of their own or not.
_LINES = re.compile(r'\}[^\S\n]*+,[^\S\n]*+\n\s*+(?=")')
_BETWEEN = re.compile(r'\}\s*+,\s*+(?=")')
_DECODER = json.JSONDecoder()
_MAX_DAMAGED = 1000

#: Keys of an entry that are not knobs.
FIELDS = {"time", "times", "error", "timestamp", "compile_time", *_RUN_TIMES, "strategy_time"}
FIELDS |= {"framework_time"}

# What a failure is called there.
_FAILED_AS = {
    "INSTANTIATION_ERROR": "InvalidConfig",
    "COMPILE_HOST": "CompilationFailedConfig",
    "COMPILE_DEVICE": "CompilationFailedConfig",
    "BUILD_TIMEOUT": "CompilationFailedConfig",
}


class _Cache(dict[str, Any]):
    """The entries of a cache, and those that are left out."""

    def __init__(self, entries: Mapping[str, Any], left_out: list[tuple[str, str]]) -> None:
        super().__init__(entries)
        self.left_out = left_out  # the key of each, and why


def parse_document(text: str) -> object:
    """Return the content of a file, also of one whose run never closed it; None if it is no JSON.

    Kernel Tuner appends a line per measurement and writes the closing braces at the end. Entries
    of a cache that are no JSON, such as one that was not written to its end, are left out.
    """
    text = text.rstrip().rstrip("\0").rstrip()
    open_end = text.rstrip(",")
    for candidate in (text, open_end + "}}", open_end + "}"):
        with contextlib.suppress(ValueError, RecursionError):
            return json.loads(candidate, object_pairs_hook=_object)
    begin = _CACHE.search(text)
    if begin is None:
        return None
    try:
        document = json.loads(text[: begin.end()] + "}}")
    except (ValueError, RecursionError):
        return None
    document["cache"] = _entries(text, begin.end())
    return document


def check_version(document: Mapping[str, Any], name: str) -> None:
    """Raise RecordError if a file says that it is of a version that is not known here.

    `document`: the parsed file.
    `name`: what the message calls it.
    """
    version = document.get("schema_version", SCHEMA_VERSION)
    if not isinstance(version, str) or not _READ.fullmatch(version):
        raise RecordError(
            f"{name} is a Kernel Tuner cache of schema_version {version!r}; this version of "
            "autotune reads 1.0.0 and later ones of 1"
        )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object, in which the last value of each key counts."""
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    again = Counter(key for key, _ in pairs) - Counter(found.keys())
    return _Cache(found, [(key, "the entry comes again further down") for key in again.elements()])


def _entries(text: str, start: int) -> _Cache:
    """Return the entries from some position of a text on, each parsed alone."""
    pairs: list[tuple[str, Any]] = []
    damaged: list[tuple[str, str]] = []
    between = _LINES if _LINES.search(text, start) else _BETWEEN
    while key := _KEY.match(text, start):
        try:
            value, start = _DECODER.raw_decode(text, key.end())
            pairs.append((key[1], value))
        except (ValueError, RecursionError):
            damaged.append((key[1], "the entry is no JSON"))
            if len(damaged) == _MAX_DAMAGED:  # each of them takes longer in a longer text
                damaged.append((key[1], f"it comes after {_MAX_DAMAGED} that are no JSON"))
                break
            following = between.search(text, key.end())
            start = following.end() if following else len(text)
    entries = _object(pairs)
    return _Cache(entries, damaged + getattr(entries, "left_out", []))


def records_of(document: Mapping[str, Any], name: str) -> Iterator[Record]:
    """Yield the measurements of a cache, whatever its objective: those of the time are read.

    `document`: the parsed file.
    `name`: what messages call it.

    Entries that are no measurement are passed over with a `RecordWarning`.

    Raises RecordError if the file is of an unknown version, the knobs are not given, or no entry is
    a measurement.
    """
    check_version(document, name)
    knobs, cache = document.get("tune_params_keys"), document["cache"]
    parameters = document.get("tune_params")
    parameters = parameters if isinstance(parameters, dict) else {}
    if knobs is None and parameters:
        knobs = list(parameters)
    if not isinstance(knobs, list) or not isinstance(cache, dict):
        raise RecordError(f"{name}: a Kernel Tuner cache has a list tune_params_keys and a cache")
    common = described(document.get("autotune")) or {
        "workload": {
            "template": str(document.get("kernel_name", "kernel")),
            "args": {"problem_size": document.get("problem_size")},
        },
        "target": "recorded",
        "device": {"name": str(document.get("device_name", ""))},
    }
    parts = joined(document.get("autotune"), knobs)
    skipped = SkippedParts(name, "not as Kernel Tuner has them", "entry")
    for key, why in getattr(cache, "left_out", ()):
        skipped.add(key, why)
    for key, entry in cache.items():
        with skipped.reading(key):
            entry = as_object(entry, "it")
            values = {knob: _value(knob, k, key, entry, parameters) for k, knob in enumerate(knobs)}
            yield _record(common, skipped.found, parts(values), entry)
    skipped.tell()


def _value(
    knob: Any, number: int, key: str, entry: Mapping[str, Any], parameters: Mapping[str, Any]
) -> Any:
    """Return the value of a knob; if an entry lacks it, the choice that its key names."""
    if knob in entry:
        return entry[knob]
    texts, choices = key.split(","), parameters.get(knob)
    if isinstance(choices, list) and number < len(texts):
        for choice in choices:
            if str(choice) == texts[number]:
                return choice
    raise KeyError(knob)


def _record(
    common: Mapping[str, Any], index: int, values: Mapping[str, Any], entry: Mapping[str, Any]
) -> Record:
    compile_ms = entry.get("compile_time")
    run_ms = [as_number(entry[key], key) for key in _RUN_TIMES if key in entry]
    return Record(
        **common,
        **_outcome(entry),
        config={"index": index, "values": values},
        seed=0,
        timestamp=seconds_since_1970(entry.get("timestamp")),
        build_s=None if compile_ms is None else as_number(compile_ms, "compile_time") / 1e3,
        run_s=sum(run_ms) / 1e3 if run_ms else None,
    )


def _outcome(entry: Mapping[str, Any]) -> dict[str, Any]:
    time = entry.get("time")
    if is_number(time) or isinstance(time, list):
        return outcome_of(time, entry.get("times"))
    # Any objective may have the failure, or a key of its own.
    failed = [v for v in entry.values() if isinstance(v, str) and v in _ERROR_CONFIGS]
    if failed:
        return written_error(entry) or outcome_of(failed[0])
    return outcome_of(entry["time"], entry.get("times"))


def why_not(record: Record) -> str | None:
    """Return why this format cannot hold a record; None if it can."""
    values = record.config["values"]
    shape = shape_of(values)
    if shape is None:
        return "a knob that is a list of lists"
    if FIELDS & expanded(values)[1](values).keys():
        return "a knob named like what Kernel Tuner measures"
    return None


def key_of(record: Record) -> str:
    """Return the key of a record's entry, which other values may have, too: 1 and "1"."""
    values = record.config["values"]
    return _key(expanded(values)[1](values))


def _key(row: Mapping[str, Any]) -> str:
    return ",".join(map(str, row.values()))


def document_of(records: Iterable[Record]) -> dict[str, Any]:
    """Return a cache of records of one workload, target and device, with keys that differ.

    A knob whose value is a list becomes one for each of its items.
    """
    listed = list(records)
    first = listed[0]
    names, expand = expanded(first.config["values"])
    rows = [expand(record.config["values"]) for record in listed]
    keys = list(rows[0])
    return {
        "schema_version": SCHEMA_VERSION,
        "device_name": str(first.device.get("name", "")),
        "kernel_name": first.template,
        "problem_size": _problem_size(first.args),
        "tune_params_keys": keys,
        "tune_params": {key: _distinct(row[key] for row in rows) for key in keys},
        "objective": "time",
        "autotune": description(first, names),
        "cache": {
            _key(row): {**row, **_entry(record)} for row, record in zip(rows, listed, strict=True)
        },
    }


def _problem_size(args: Mapping[str, Any]) -> Any:
    """Return the argument of this name if it is one there, else the sizes among the arguments."""
    given = args.get("problem_size")
    listed = given if isinstance(given, list) else [given]
    if isinstance(given, str) or (given is not None and all(type(x) is int for x in listed)):
        return given
    return [value for value in args.values() if type(value) is int]


def _distinct(values: Iterable[Any]) -> list[Any]:
    """Return the values that differ, those of numbers ascending."""
    found = list({json.dumps(value): value for value in values}.values())
    return sorted(found) if all(map(is_number, found)) else found


def _entry(record: Record) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if record.error is not None:
        found["time"] = _FAILED_AS.get(record.error["code"], "RuntimeFailedConfig")
        found["error"] = dict(record.error)
    else:
        found["time"], found["times"] = times_ms(record.costs_s or ())
    return {
        **found,
        "compile_time": 1e3 * (record.build_s or 0.0),
        "verification_time": 0,
        "benchmark_time": 1e3 * (record.run_s or 0.0),
        "strategy_time": 0,
        "framework_time": 0,
        "timestamp": timestamp_of(record),
    }
