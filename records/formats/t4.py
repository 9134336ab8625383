"""T4 results: the format for auto-tuning results that tuners share (TuningSchema, version 1).

Each result has its configuration, times, how it is invalid, and measurements. Times are
milliseconds unless the file or the measurement says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from records.formats.malformed import as_list, as_number, as_object
from records.formats.one_workload import described, description
from records.formats.outcomes import (
    failure,
    outcome_of,
    seconds_since_1970,
    times_ms,
    timestamp_of,
    written_error,
)
from records.formats.skipped import SkippedParts
from records.record import Record
from records.record_errors import RecordError

SCHEMA_VERSION = "1.0.0"

_CODES = {
    "timeout": "RUN_TIMEOUT",
    "compile": "COMPILE_DEVICE",
    "runtime": "RUNTIME_DEVICE",
    "correctness": "WRONG_ANSWER",
    "constraints": "INSTANTIATION_ERROR",
}
# The invalidity of each error.
_INVALIDITIES = {code: invalidity for invalidity, code in _CODES.items()} | {
    "COMPILE_HOST": "compile",
    "BUILD_TIMEOUT": "timeout",
    "UNKNOWN": "runtime",
}
_COMPILE_TIMES = ("compilation", "compilation_time")

# How many of a unit a second has, by the beginning of its name; the hub writes "miliseconds".
_PER_S = {"ns": 1e9, "nano": 1e9, "us": 1e6, "µs": 1e6, "micro": 1e6, "s": 1.0, "sec": 1.0}
_MS = 1e3


def records_of(document: Mapping[str, Any], name: str) -> Iterator[Record]:
    """Yield the measurements in T4 results; their time is the cost, whatever their objective is.

    `document`: the parsed file.
    `name`: what messages call it.

    Results without configuration, times or a measured time are passed over with a `RecordWarning`.

    Raises RecordError if no result is a measurement.
    """
    results, metadata = document["results"], document.get("metadata")
    if not isinstance(results, list):
        raise RecordError(f"{name}: the results of T4 are a list, not {type(results).__name__}")
    metadata = metadata if isinstance(metadata, dict) else {}
    common = described(metadata.get("autotune")) or {
        "workload": {"template": "T4 results", "args": {}},
        "target": "recorded",
    }
    per_s = _per_second(metadata.get("timeunit"), _MS)
    skipped = SkippedParts(name, "not as T4 has them", "result")
    for number, result in enumerate(results):
        with skipped.reading(number):
            yield _record(common, number, as_object(result, "it"), per_s)
    skipped.tell()


def _record(
    common: Mapping[str, Any], index: int, result: Mapping[str, Any], per_s: float
) -> Record:
    times = as_object(result["times"], "times")
    compilation = next((times[key] for key in _COMPILE_TIMES if key in times), None)
    parts = [*as_list(times.get("runtimes") or [], "runtimes"), times.get("validation") or 0.0]
    in_all = sum(as_number(part, "each of the times") for part in parts)
    return Record(
        **common,
        config={
            "index": index,
            "values": dict(as_object(result["configuration"], "configuration")),
        },
        seed=0,
        timestamp=seconds_since_1970(result.get("timestamp")),
        build_s=None if compilation is None else as_number(compilation, "compilation") / per_s,
        run_s=in_all / per_s,
        **_outcome(result, times.get("runtimes"), per_s),
    )


def _outcome(result: Mapping[str, Any], runtimes: object, per_s: float) -> dict[str, Any]:
    invalidity = result["invalidity"]
    if invalidity != "correct":
        code = _CODES.get(invalidity, "UNKNOWN") if isinstance(invalidity, str) else "UNKNOWN"
        return written_error(result) or failure(code, str(invalidity))
    objective = as_list(result.get("objectives") or ["time"], "objectives")[0]
    if not isinstance(objective, str):
        raise RecordError("objectives must be names")
    listed = as_list(result.get("measurements") or [], "measurements")
    measured = {m["name"]: m for m in (as_object(m, "a measurement") for m in listed)}
    if "time" in measured:
        time = measured["time"]
        unit = _per_second(time.get("unit"), per_s)
        return outcome_of(time["value"], runtimes if unit == per_s else None, unit)
    if runtimes:
        return outcome_of(runtimes, per_s=per_s)
    raise RecordError(f"no time was measured, only {', '.join(map(str, measured)) or 'nothing'}")


def _per_second(unit: object, otherwise: float) -> float:
    """Return how many of a unit of time a second has; `otherwise` if it is no unit of time."""
    if not isinstance(unit, str) or not unit:
        return otherwise
    name = unit.strip().lower()
    if name in ("ms", "msec") or name.startswith(("mili", "milli")):
        return _MS
    for beginning in ("nano", "micro", "sec"):
        if name.startswith(beginning):
            return _PER_S[beginning]
    return _PER_S.get(name, otherwise)


def document_of(records: Iterable[Record]) -> dict[str, Any]:
    """Return T4 results of records of one workload, target and device."""
    listed = list(records)
    return {
        "schema_version": SCHEMA_VERSION,
        "metadata": {"timeunit": "milliseconds", "autotune": description(listed[0])},
        "results": [_result(record) for record in listed],
    }


def _result(record: Record) -> dict[str, Any]:
    failed = record.error
    value: Any
    if failed is None:
        value, runtimes = times_ms(record.costs_s or ())
        invalidity = "correct"
    else:
        value, runtimes = failed["code"], []
        invalidity = _INVALIDITIES.get(failed["code"], "runtime")
    return {
        "timestamp": timestamp_of(record),
        "configuration": dict(record.config["values"]),
        "times": {
            "compilation": _MS * (record.build_s or 0.0),
            "framework": 0,
            "search_algorithm": 0,
            "validation": max(0.0, _MS * (record.run_s or 0.0) - sum(runtimes)),
            "runtimes": runtimes,
        },
        "invalidity": invalidity,
        "correctness": int(failed is None),
        "measurements": [{"name": "time", "value": value, "unit": "ms"}],
        "objectives": ["time"],
        **({} if failed is None else {"error": dict(failed)}),
    }
