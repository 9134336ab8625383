"""Converts the outcome of a measurement: times and their unit, failures, time stamps.

A cost is a number of seconds in a record; other tools have milliseconds, a text or a huge number in
place of a time, and names of their own for failures.
"""

from __future__ import annotations

import contextlib
import math
import re
import statistics
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from records.record import MAX_S, MIN_S, Record

FAILED = 1e20  # The number that old files hold for a failure.

# The stage that an error belongs to where a format keeps only its code.
STAGES = {
    "INSTANTIATION_ERROR": "instantiate",
    "COMPILE_HOST": "compile",
    "COMPILE_DEVICE": "compile",
    "RUNTIME_DEVICE": "run",
    "WRONG_ANSWER": "check",
    "BUILD_TIMEOUT": "build",
    "RUN_TIMEOUT": "run",
    "UNKNOWN": "run",
}

_TEXTS = {
    "InvalidConfig": "INSTANTIATION_ERROR",
    "CompilationFailedConfig": "COMPILE_DEVICE",
    "RuntimeFailedConfig": "RUNTIME_DEVICE",
    "ErrorConfig": "UNKNOWN",
}
_MAX_TEXT = 1000  # Characters of a text in place of a time that are kept.

# A number that was written as text, such as "2.5" or "np.float32(2.5)".
_NUMBER = re.compile(r"(?:(?:np|numpy)\.\w{1,16}\()?([-+]?[0-9.]{1,40}(?:[eE][-+]?\d{1,3})?)\)?")


def is_number(value: object) -> bool:
    """Whether a parsed value is a number, which a flag is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def failure(code: str, message: str) -> dict[str, Any]:
    """Return the `error` of a record."""
    stage = STAGES.get(code, "run")
    return {"error": {"code": code, "stage": stage, "message": message[:_MAX_TEXT]}}


def outcome_of(value: Any, repeats: object = None, per_s: float = 1e3) -> dict[str, Any]:
    """Return `costs_s` or `error`, as a record has them, for a time or the text in its place.

    `repeats`: the times that `value` may be of. They are the costs if `value` is their median.
    `per_s`: how many units of these numbers a second has.
    """
    if isinstance(value, str):
        number = _NUMBER.fullmatch(value)
        with contextlib.suppress(ValueError):
            value = float(number[1]) if number else value
    if isinstance(value, list) and value and all(map(is_number, value)):
        repeats, value = value, statistics.median(value)
    if not is_number(value):
        text = str(value)[:_MAX_TEXT]
        return failure(_TEXTS.get(text, "UNKNOWN"), text)
    if not _is_time(value, per_s):
        return failure("UNKNOWN", f"time {value}")
    if isinstance(repeats, list) and all(_is_time(time, per_s) for time in repeats):
        costs = tuple(time / per_s for time in repeats)
        if costs and math.isclose(statistics.median(costs), value / per_s, rel_tol=1e-12):
            return {"costs_s": costs}
    return {"costs_s": (value / per_s,)}


def _is_time(value: Any, per_s: float) -> bool:
    return is_number(value) and per_s * MIN_S <= value < min(FAILED, per_s * MAX_S)


def seconds_since_1970(timestamp: object) -> float:
    """Return a timestamp such as "2023-12-22 09:54:05+00:00" as Unix time; 0 if there is none."""
    if not isinstance(timestamp, str):
        return 0.0
    try:
        moment = datetime.fromisoformat(timestamp)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def timestamp_of(record: Record) -> str:
    """Return when a record was made as such a timestamp; that of 0 where no calendar reaches."""
    try:
        return str(datetime.fromtimestamp(record.timestamp, UTC))
    except (ValueError, OverflowError, OSError):
        return str(datetime.fromtimestamp(0, UTC))


def times_ms(costs_s: Sequence[float]) -> tuple[float, list[float]]:
    """Return the median of some costs, and the costs, in milliseconds."""
    times = [cost * 1e3 for cost in costs_s]
    return statistics.median(times), times


def written_error(entry: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the `error` that our export stored in an entry, besides the format's own field."""
    error = entry.get("error")
    if not isinstance(error, dict) or error.keys() != {"code", "stage", "message"}:
        return None
    texts = all(isinstance(text, str) for text in error.values())
    return {"error": error} if texts and error["code"] in STAGES else None
