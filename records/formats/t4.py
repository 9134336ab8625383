"""T4 results: the format for auto-tuning results that tuners share (TuningSchema, version 1).

Each result has its configuration, times in milliseconds, how it is invalid, and measurements.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from records.formats.kernel_tuner import outcome_of, seconds_since_1970
from records.formats.malformed import MALFORMED, describe_error
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

    Parameters
    ----------
    document : mapping
        The parsed file.
    name : str
        What messages call it.

    Raises
    ------
    RecordError
        If a result lacks its configuration, its times or a measurement of its objective.
    """
    results = document["results"]
    if not isinstance(results, list):
        raise RecordError(f"{name}: the results of T4 are a list, not {type(results).__name__}")
    found = []
    for index, result in enumerate(results):
        try:
            found.append(_record(index, result))
        except MALFORMED as error:
            why = describe_error(error)
            raise RecordError(f"{name}: result {index} is not as T4 has them: {why}") from error
    return found


def _record(index: int, result: Mapping[str, Any]) -> Record:
    times = result["times"]
    compile_ms = next((times[key] for key in _COMPILE_TIMES if key in times), None)
    run_ms = sum(times.get("runtimes") or [0.0]) + (times.get("validation") or 0.0)
    return Record(
        workload={"template": "T4 results", "args": {}},
        target="recorded",
        config={"index": index, "values": dict(result["configuration"])},
        seed=0,
        timestamp=seconds_since_1970(result.get("timestamp")),
        build_s=None if compile_ms is None else 1e-3 * compile_ms,
        run_s=1e-3 * run_ms,
        **_outcome(result),
    )


def _outcome(result: Mapping[str, Any]) -> dict[str, Any]:
    invalidity = result["invalidity"]
    if invalidity != "correct":
        code, stage = _INVALIDITIES.get(invalidity, ("UNKNOWN", "run"))
        return {"error": {"code": code, "stage": stage, "message": str(invalidity)}}
    objective = (result.get("objectives") or ["time"])[0]
    values = {m["name"]: m["value"] for m in result["measurements"]}
    return outcome_of(values[objective])
