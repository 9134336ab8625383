"""AutoTVM's logs, one measurement per line: versions 0.1 and 0.2 are read, 0.2 is written.

The format is that of `tvm.autotvm.record`: target, task, arguments, knob values as [name, kind,
value], and [costs in seconds, error number, seconds in all, Unix time].
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from records.formats.malformed import as_list, as_number, as_object
from records.formats.outcomes import failure
from records.formats.skipped import SkippedParts
from records.json_lines import parse_json, parse_plain
from records.record import MIN_S, Record, expect
from records.record_errors import RecordError

VERSION = 0.2  # What is written; 0.1 was the other one.

# Error numbers of AutoTVM's `MeasureErrorNo`, which begin at 1.
_CODES = (
    "INSTANTIATION_ERROR",
    "COMPILE_HOST",
    "COMPILE_DEVICE",
    "RUNTIME_DEVICE",
    "WRONG_ANSWER",
    "BUILD_TIMEOUT",
    "RUN_TIMEOUT",
    "UNKNOWN",
)
FAILED_S = 1e9  # What AutoTVM writes as the cost of a failure.
_NO_VERSION = "unknown"  # What is written for the version of TVM where none is known.
_NO_MESSAGE = "AutoTVM keeps no message"

# Kinds of knobs: split, reorder, annotate, other.
_KINDS = ("sp", "re", "an", "ot")

# A target and base64 of pickles, and in version 0.2 two versions, with tabs between them.
_PICKLED = re.compile(rb"[^\t\n]*+(?:\t[A-Za-z0-9+/]++=*){3}(?:\t[^\t\n]*){0,2}\s*")


def is_entry(line: object) -> bool:
    """Whether a parsed line is of version 0.1 (keys i, r, v) or 0.2 (input, config, result)."""
    if not isinstance(line, dict):
        return False
    return {"i", "r"} <= line.keys() or {"input", "config", "result"} <= line.keys()


def is_pickled(line: bytes) -> bool:
    """Whether a line was written with AutoTVM's protocol "pickle", which is never loaded."""
    return _PICKLED.fullmatch(line) is not None


def records_of(lines: Iterable[bytes], name: str) -> Iterator[Record]:
    """Yield the measurements in a log; lines that begin with # are comments.

    Lines that are none are passed over with a `RecordWarning`.

    Raises RecordError if none of the lines is a measurement.
    """
    skipped = SkippedParts(name, "no AutoTVM measurement", "line")
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith(b"#"):
            continue
        with skipped.reading(number):
            yield _record(_entry(line))
    skipped.tell()


def _entry(line: bytes) -> dict[str, Any]:
    entry: Any = parse_plain(line)
    if entry is None and is_pickled(line):
        raise ValueError("it is pickled: loading it could run any program, so it is not loaded")
    if entry is None:
        entry = parse_json(line)
    if not is_entry(entry):
        raise ValueError("neither version 0.1 nor 0.2 of the format")
    found: dict[str, Any] = entry
    return found


def _record(entry: Mapping[str, Any]) -> Record:
    if "input" in entry:
        task, result = as_list(entry["input"], "input", 4), as_list(entry["result"], "result", 4)
        config = as_object(entry["config"], "config")
        index, knobs, code_hash = config["index"], config["entity"], config.get("code_hash")
        variant = None
    else:
        task, result = as_list(entry["i"], "i", 6), as_list(entry["r"], "r", 4)
        config = as_object(task[5], "the configuration")
        index, knobs, code_hash = config["i"], config["e"], config.get("c")
        variant = config.get("t")
    expect("the index", index, int)
    target, name, args, kwargs = task[:4]
    # Version 0.2 has the variant of a template in its name, "conv2d_nchw_winograd.cuda".
    name = str(name) if variant in (None, "", "direct") else f"{name}.{variant}"
    costs, error_number, all_s, timestamp = result[:4]
    version = entry.get("tvm_version", _NO_VERSION)
    known = isinstance(version, str) and version != _NO_VERSION
    expect("the error number", error_number, int)
    return Record(
        workload={"template": name, "args": _named_arguments(args, kwargs)},
        target=str(target),
        config={"index": index, **_knob_values(as_list(knobs, "the knobs"))},
        seed=0,
        timestamp=as_number(timestamp, "the time stamp"),
        run_s=as_number(all_s, "the time in all"),
        versions={"tvm": version} if known else {},
        fingerprints={"template": code_hash} if isinstance(code_hash, str) else None,
        **_outcome(costs, error_number),
    )


def _named_arguments(args: object, kwargs: object) -> dict[str, Any]:
    """Return the arguments by name; "args" is the list of those without one, if there are any."""
    named = dict(as_object(kwargs, "the named arguments"))
    if not args:
        return named
    if "args" in named:
        raise RecordError("an argument is named args, as all without a name are")
    return {"args": args, **named}


def _knob_values(knobs: list[Any]) -> dict[str, Any]:
    """Return `values`, and `kinds` of those whose kind does not follow from the value."""
    values: dict[str, Any] = {}
    kinds: dict[str, str] = {}
    for knob in knobs:
        name, kind, value, *_ = as_list(knob, "a knob", 3)
        name = str(name)
        if kind not in _KINDS:
            raise RecordError(f"knob {name[:60]!r} is of the unknown kind {str(kind)[:60]!r}")
        if name in values:
            raise RecordError(f"two knobs are named {name[:60]!r}")
        values[name] = value
        if kind != _kind_of(value):
            kinds[name] = kind
    return {"values": values, "kinds": kinds} if kinds else {"values": values}


def _kind_of(value: object) -> str:
    """Return the kind of knob that has such values.

    An order is of the numbers from 0 on, and no part of a split has the length 0.
    """
    if not isinstance(value, list) or not value:
        return "ot"
    if all(isinstance(item, str) for item in value):
        return "an"
    if any(type(item) is not int for item in value):
        return "ot"
    return "re" if sorted(value) == list(range(len(value))) else "sp"


def _outcome(costs: object, error_number: int) -> dict[str, Any]:
    if error_number:
        listed = costs if isinstance(costs, list) else [costs]
        code = _CODES[error_number - 1] if 0 < error_number <= len(_CODES) else "UNKNOWN"
        said = " ".join(str(part) for part in listed if part != FAILED_S)
        return failure(code, said or _NO_MESSAGE)
    times: list[float] = as_list(costs, "costs")
    for cost in times:
        expect("a cost", cost, float)
    if times and all(MIN_S <= cost < FAILED_S for cost in times):
        return {"costs_s": tuple(times)}
    return failure("UNKNOWN", "no positive time")


def why_not(record: Record) -> str | None:
    """Return why this format cannot hold a record; None if it can."""
    return "inputs that do not change" if record.constant else None


def line_of(record: Record) -> str:
    """Return a record as a line of version 0.2, without the newline."""
    args = dict(record.args)
    unnamed = args.pop("args") if isinstance(args.get("args"), list) and args["args"] else []
    kinds = record.config.get("kinds")
    kinds = kinds if isinstance(kinds, dict) else {}
    values = record.config["values"].items()
    costs = [FAILED_S] if record.costs_s is None else list(record.costs_s)
    code = 0 if record.error is None else _number_of(record.error["code"])
    entry = {
        "input": [record.target, record.template, unnamed, args],
        "config": {
            "index": record.index,
            "code_hash": record.fingerprint,
            "entity": [[name, kinds.get(name, _kind_of(value)), value] for name, value in values],
        },
        "result": [costs, code, (record.build_s or 0.0) + (record.run_s or 0.0), record.timestamp],
        "version": VERSION,
        "tvm_version": str(record.versions.get("tvm", _NO_VERSION)),
    }
    return json.dumps(entry, allow_nan=False)


def _number_of(code: str) -> int:
    return _CODES.index(code) + 1 if code in _CODES else len(_CODES)
