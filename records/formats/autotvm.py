"""AutoTVM's logs, one measurement per line, in the versions 0.1 and 0.2 that were ever written.

The format is that of `tvm.autotvm.record`: target, task, arguments, knob values as [name, kind,
value], and [costs in seconds, error number, seconds in all, Unix time].
"""

from __future__ import annotations

import json
from typing import Any

from records.formats.malformed import MALFORMED, as_list, as_number, as_object, describe_error
from records.record import MAX_S, MIN_S, Record, expect
from records.record_errors import RecordError

# Error numbers of AutoTVM's `MeasureErrorNo`.
_ERRORS = {
    1: ("INSTANTIATION_ERROR", "instantiate"),
    2: ("COMPILE_HOST", "compile"),
    3: ("COMPILE_DEVICE", "compile"),
    4: ("RUNTIME_DEVICE", "run"),
    5: ("WRONG_ANSWER", "check"),
    6: ("BUILD_TIMEOUT", "build"),
    7: ("RUN_TIMEOUT", "run"),
    8: ("UNKNOWN", "run"),
}


def is_entry(line: object) -> bool:
    """Whether a parsed line is of version 0.1 (keys i, r, v) or 0.2 (input, config, result)."""
    if not isinstance(line, dict):
        return False
    return {"i", "r"} <= line.keys() or {"input", "config", "result"} <= line.keys()


def parse(text: str, name: str) -> list[Record]:
    """Return the measurements in a log; lines that begin with # are comments.

    Raises RecordError if a line is no measurement.
    """
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            entry = json.loads(line)
            if not is_entry(entry):
                raise ValueError("neither version 0.1 nor 0.2 of the format")
            found.append(_record(entry))
        except MALFORMED as error:
            why = describe_error(error)
            raise RecordError(f"{name}, line {number}: no AutoTVM measurement: {why}") from error
    return found


def _record(entry: dict[str, Any]) -> Record:
    if "input" in entry:
        task, result = as_list(entry["input"], "input", 4), as_list(entry["result"], "result", 4)
        config = as_object(entry["config"], "config")
        index, knobs = config["index"], config["entity"]
    else:
        task, result = as_list(entry["i"], "i", 6), as_list(entry["r"], "r", 4)
        config = as_object(task[5], "the configuration")
        index, knobs = config["i"], config["e"]
    expect("the index", index, int)
    target, name, args, kwargs = task[:4]
    costs, error_number, all_s, timestamp = result[:4]
    parts = [as_list(knob, "a knob", 3) for knob in as_list(knobs, "the knobs")]
    values = {str(knob): value for knob, _, value, *_ in parts}
    args = {"args": args, **as_object(kwargs, "the named arguments")}
    common: dict[str, Any] = {
        "workload": {"template": str(name), "args": args},
        "target": str(target),
        "config": {"index": index, "values": values},
        "seed": 0,
        "timestamp": as_number(timestamp, "the time stamp"),
        "run_s": as_number(all_s, "the time in all"),
    }
    expect("the error number", error_number, int)
    for cost in as_list(costs, "costs") if error_number == 0 else ():
        expect("a cost", cost, float)
    if error_number == 0 and all(MIN_S <= cost <= MAX_S for cost in costs):
        return Record(**common, costs_s=tuple(costs))
    code, stage = _ERRORS.get(error_number, _ERRORS[8])
    message = " ".join(str(part) for part in costs) if error_number else "no positive time"
    return Record(**common, error={"code": code, "stage": stage, "message": message})
