"""Kernel Tuner's cache files: one object with the knobs and every configuration measured.

Times are milliseconds. What failed has a text in place of the time or, in older files, a huge
number; a file that a run left open lacks its end.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from records.formats.malformed import MALFORMED, as_number, as_object, describe_error
from records.record import MIN_S, Record
from records.record_errors import RecordError

FAILED_MS = 1e20  # The number that old files hold for a failure.

_FAILURES = {
    "InvalidConfig": ("INSTANTIATION_ERROR", "instantiate"),
    "CompilationFailedConfig": ("COMPILE_DEVICE", "compile"),
    "RuntimeFailedConfig": ("RUNTIME_DEVICE", "run"),
}
_MAX_TEXT = 1000  # Characters of a text in place of a time that are kept.

_RUN_TIMES = ("verification_time", "benchmark_time")


def parse_json(text: str) -> object:
    """Return the content of a file, also of one whose run never closed it; None if it is no JSON.

    Kernel Tuner appends a line per measurement and writes the closing braces at the end.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return json.loads(text.rstrip().rstrip(",") + "}}")
    except (ValueError, RecursionError):
        return None


def records_of(document: Mapping[str, Any], name: str) -> list[Record]:
    """Return the measurements of a cache; its objective's value is the one cost of each.

    `document`: the parsed file.
    `name`: what messages call it.

    Raises RecordError if the knobs are not given, or an entry lacks one of them or the objective.
    """
    knobs, cache = document.get("tune_params_keys"), document["cache"]
    if not isinstance(knobs, list) or not isinstance(cache, dict):
        raise RecordError(f"{name}: a Kernel Tuner cache has a list tune_params_keys and a cache")
    objective = document.get("objective", "time")
    if objective != "time":
        raise RecordError(f"{name}: the objective is {objective!r}; only times can be read")
    problem = document.get("problem_size")
    common = {
        "workload": {
            "template": str(document.get("kernel_name", "kernel")),
            "args": {"problem_size": problem},
        },
        "target": "recorded",
        "device": {"name": str(document.get("device_name", ""))},
        "seed": 0,
    }
    found = []
    for index, (key, entry) in enumerate(cache.items()):
        try:
            entry = as_object(entry, "it")
            found.append(_record(common, index, {k: entry[k] for k in knobs}, entry))
        except KeyError as error:
            raise RecordError(f"{name}: entry {key[:60]} of the cache lacks {error}") from error
        except MALFORMED as error:
            raise RecordError(
                f"{name}: entry {key[:60]} of the cache is not as Kernel Tuner has them: "
                f"{describe_error(error)}"
            ) from error
    return found


def _record(
    common: Mapping[str, Any], index: int, values: Mapping[str, Any], entry: Mapping[str, Any]
) -> Record:
    outcome = outcome_of(entry["time"])
    compile_ms = entry.get("compile_time")
    run_ms = [as_number(entry[key], key) for key in _RUN_TIMES if key in entry]
    return Record(
        **common,
        **outcome,
        config={"index": index, "values": values},
        timestamp=seconds_since_1970(entry.get("timestamp")),
        build_s=None if compile_ms is None else 1e-3 * as_number(compile_ms, "compile_time"),
        run_s=1e-3 * sum(run_ms) if run_ms else None,
    )


def outcome_of(value: object) -> dict[str, Any]:
    """Return `costs_s` or `error`, as a record has them, for a time in milliseconds or a text."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if 1e3 * MIN_S < value < FAILED_MS:
            return {"costs_s": (1e-3 * value,)}
        code, stage, text = "UNKNOWN", "run", f"time {value}"[:_MAX_TEXT]
    else:
        text = str(value)[:_MAX_TEXT]
        code, stage = _FAILURES.get(text, ("UNKNOWN", "run"))
    return {"error": {"code": code, "stage": stage, "message": text}}


def seconds_since_1970(timestamp: object) -> float:
    """Return a timestamp such as "2023-12-22 09:54:05+00:00" as Unix time; 0 if there is none."""
    if not isinstance(timestamp, str):
        return 0.0
    try:
        moment = datetime.fromisoformat(timestamp)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return 0.0
