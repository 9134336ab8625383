"""T4 results: the format for auto-tuning results that tuners share (TuningSchema, version 1).

Each result has its configuration, times in milliseconds, how it is invalid, and measurements.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from records.formats.kernel_tuner import outcome_of, seconds_since_1970
from records.formats.malformed import MALFORMED, as_list, as_number, as_object, describe_error
from records.record import Record
from records.record_errors import RecordError

_INVALIDITIES = {
    "timeout": ("RUN_TIMEOUT", "run"),
    "compile": ("COMPILE_DEVICE", "compile"),
    "runtime": ("RUNTIME_DEVICE", "run"),
    "correctness": ("WRONG_ANSWER", "check"),
    "constraints": ("INSTANTIATION_ERROR", "instantiate"),
}
_COMPILE_TIMES = ("compilation", "compilation_time")


def records_of(document: Mapping[str, Any], name: str) -> list[Record]:
    """Return the measurements in T4 results; the first objective's value is the one cost of each.

    `document`: the parsed file.
    `name`: what messages call it.

    Raises RecordError if a result lacks its configuration, its times or a measurement of its
    objective.
    """
    results = document["results"]
    if not isinstance(results, list):
        raise RecordError(f"{name}: the results of T4 are a list, not {type(results).__name__}")
    found = []
    for index, result in enumerate(results):
        try:
            found.append(_record(index, as_object(result, "it")))
        except MALFORMED as error:
            why = describe_error(error)
            raise RecordError(f"{name}: result {index} is not as T4 has them: {why}") from error
    return found


def _record(index: int, result: Mapping[str, Any]) -> Record:
    times = as_object(result["times"], "times")
    compile_ms = next((times[key] for key in _COMPILE_TIMES if key in times), None)
    parts = [*as_list(times.get("runtimes") or [], "runtimes"), times.get("validation") or 0.0]
    run_ms = sum(as_number(part, "each of the times") for part in parts)
    values = dict(as_object(result["configuration"], "configuration"))
    return Record(
        workload={"template": "T4 results", "args": {}},
        target="recorded",
        config={"index": index, "values": values},
        seed=0,
        timestamp=seconds_since_1970(result.get("timestamp")),
        build_s=None if compile_ms is None else 1e-3 * as_number(compile_ms, "compilation"),
        run_s=1e-3 * run_ms,
        **_outcome(result),
    )


def _outcome(result: Mapping[str, Any]) -> dict[str, Any]:
    invalidity = result["invalidity"]
    if invalidity != "correct":
        code, stage = _INVALIDITIES.get(invalidity, ("UNKNOWN", "run"))
        return {"error": {"code": code, "stage": stage, "message": str(invalidity)}}
    objective = as_list(result.get("objectives") or ["time"], "objectives")[0]
    if not isinstance(objective, str):
        raise RecordError("objectives must be names")
    found = [as_object(m, "a measurement") for m in as_list(result["measurements"], "measurements")]
    values = {m["name"]: m["value"] for m in found}
    return outcome_of(values[objective])
