"""Checks the values of a record: types, ranges, names, and that all of it is plain JSON data.

`record.schema.json` says the same for other programs, except for what no schema can say: lists and
objects are nested at most `MAX_NESTED` deep, and `final.rounds` has a number for each cost.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from records.json_lines import MAX_NESTED
from records.record_errors import RecordError

if TYPE_CHECKING:
    from records.record import Record

# Least and largest cost in seconds, so that speeds and sums are finite, too.
MIN_S, MAX_S = 1e-18, 1e18

_MOST = sys.float_info.max  # Limit of numbers: a larger integer could not be converted to a float.


# What is in every record; a name with a dot is of something inside an object.
_TYPES: dict[str, type] = {
    "workload": dict, "workload.template": str, "workload.args": dict, "target": str,
    "config": dict, "config.index": int, "config.values": dict,
    "policy": dict, "device": dict, "versions": dict, "seed": int, "timestamp": float,
}  # fmt: skip

_TYPES_IF_GIVEN: dict[str, type] = {
    "error": dict, "error.code": str, "error.stage": str, "error.message": str,
    "fingerprints": dict, "build_s": float, "run_s": float, "noise": float, "clocks": dict,
    "kernels": list, "steps": list, "final": dict, "final.comparison": str, "final.rank": int,
}  # fmt: skip


def _expect_types(record: Record, types: Mapping[str, type], given: bool = False) -> None:
    """Check the types of fields; of those that are None only if none may be."""
    for name, kind in types.items():
        field_name, _, key = name.partition(".")
        value = getattr(record, field_name)
        if value is not None or not given:
            expect(name, value.get(key) if key else value, kind)


def check(record: Record) -> None:
    """Refuse a record with a wrong value: RecordError, which names it."""
    _expect_types(record, _TYPES)
    expect("workload.constant", record.workload.get("constant", []), list)
    for position in record.constant:
        expect("workload.constant", position, int)
    for knob, value in record.config["values"].items():
        if not _is_knob_value(value):
            raise RecordError(f"knob {short(knob)} must be a number, text or list of such")
    _check_names(record)
    if (record.costs_s is None) == (record.error is None):
        raise RecordError("a record has either costs_s or error, and not both")
    if record.costs_s is not None:
        _check_costs(record.costs_s)
    _expect_types(record, _TYPES_IF_GIVEN, given=True)
    for key, digest in (record.fingerprints or {}).items():
        expect(f"fingerprints.{key}", digest, str)
    if not isinstance(record.raced, bool):
        raise RecordError(f"raced must be true or false, not {short(record.raced)}")
    if record.final is not None:
        _check_final(record.final, len(record.costs_s or ()))


def _check_names(record: Record) -> None:
    """Refuse names that would steer a terminal: no program writes them."""
    for name in (
        *(record.template, record.target, record.device.get("name")),
        *record.args,
        *record.config["values"],
    ):
        if not isinstance(name, str) or name.isprintable():
            continue
        if any(unicodedata.category(character) == "Cc" for character in name):
            raise RecordError(f"the name {short(name)} has control characters")


def _check_final(final: Mapping[str, Any], costs: int) -> None:
    rounds = final.get("rounds")
    if rounds is not None:
        expect("final.rounds", rounds, list)
        for number in rounds:
            expect("final.rounds", number, int)
        if len(rounds) != costs:
            raise RecordError(f"final.rounds must be one for each of {costs} costs")
    if final["rank"] < 0:
        raise RecordError(f"final.rank must be at least 0, not {short(final['rank'])}")
    if final.get("over_default") is not None:
        ends = final.get("range")
        if not isinstance(ends, list) or len(ends) != 2:
            raise RecordError(f"final.range must be two numbers, not {short(ends)}")
        for name, ratio in (("over_default", final["over_default"]), *(("range", e) for e in ends)):
            expect(f"final.{name}", ratio, float)
            if ratio <= 0:
                raise RecordError(f"final.{name} must be above 0, not {short(ratio)}")
        if ends[0] > ends[1]:
            raise RecordError(f"final.range must be in ascending order, not {short(ends)}")


def _is_knob_value(value: object) -> bool:
    """Whether a knob can have this value: anything but an object, in lists too."""
    if isinstance(value, list):
        return all(map(_is_knob_value, value))
    return not isinstance(value, dict)


def _check_costs(costs: object) -> None:
    if not isinstance(costs, list) or not costs:
        raise RecordError(f"costs_s must be a non-empty list of seconds, not {short(costs)}")
    for cost in costs:
        expect("costs_s", cost, float)
        if cost <= 0:
            raise RecordError(f"costs_s must be positive seconds, not {short(cost)}")
        if not MIN_S <= cost <= MAX_S:
            raise RecordError(
                f"costs_s must be seconds from {MIN_S:g} to {MAX_S:g}, not {short(cost)}"
            )


def expect(name: str, value: object, kind: type) -> None:
    """Check a type; an int is valid for a float, a bool is not a number."""
    wanted = (int, float) if kind is float else (kind,)
    if not isinstance(value, wanted) or isinstance(value, bool):
        what = {dict: "an object", float: "a number"}.get(kind, f"of type {kind.__name__}")
        raise RecordError(f"{name} must be {what}, not {short(value)}")


def to_plain(value: object, where: str, depth: int = 0) -> Any:
    """Convert to JSON data: tuples become lists, NumPy's numbers Python's.

    RecordError, naming `where`, if something else is in there, a number that no float holds (one
    that is not finite, or an integer beyond 1.8e308), or too many lists inside one another.
    """
    if value is None or isinstance(value, str | bool):
        return value
    if type(value) is int or type(value) is float:
        if not -_MOST <= value <= _MOST:
            raise RecordError(f"{where} must be finite and below 1.8e308, not {short(value)}")
        return value
    if depth == MAX_NESTED:
        raise RecordError(f"{where} is nested more than {MAX_NESTED} levels deep")
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise RecordError(f"{where} has the key {short(key)}; keys must be strings")
        return {key: to_plain(item, where, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item, where, depth + 1) for item in value]
    if hasattr(value, "tolist"):
        return to_plain(value.tolist(), where, depth + 1)
    raise RecordError(f"{where} holds {short(value)}, which JSON cannot express")


def read_number(value: Any) -> float | None:
    """Read `max_error`, in which "inf" and "nan" stand for numbers that JSON lacks."""
    if value is None:
        return None
    if isinstance(value, str) and value in ("inf", "nan"):
        return float(value)
    plain = value.item() if getattr(value, "ndim", None) == 0 else value
    expect("max_error", plain, float)
    if isinstance(plain, int) and not -_MOST <= plain <= _MOST:
        raise RecordError(f"max_error must be below 1.8e308, not {short(plain)}")
    return float(plain)


def short(value: object) -> str:
    """Return a value for a message, cut if it is long."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits; lists in lists
        return f"one of type {type(value).__name__} that cannot be printed"
    return text if len(text) <= 60 else f"{text[:57]}..."
