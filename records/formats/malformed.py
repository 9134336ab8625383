"""Errors of importers for malformed files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from records.record import expect, to_plain
from records.record_errors import RecordError

# Exceptions of reading a value of another type or size, or a missing one.
MALFORMED = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)

_MAX_SAID = 200


def describe_error(error: Exception) -> str:
    """Return in one short line what is wrong, for a message that says where it is."""
    text = f"{error} is missing" if isinstance(error, KeyError) else str(error)
    text = " ".join(text.split())
    return text if len(text) <= _MAX_SAID else f"{text[: _MAX_SAID - 3]}..."


def as_object(value: Any, what: str) -> Mapping[str, Any]:
    """Return a value that has to be an object; `what` names it in the message if it is none."""
    expect(what, value, dict)
    return cast(Mapping[str, Any], value)


def as_list(value: Any, what: str, length: int = 0) -> list[Any]:
    """Return a value that has to be a list of at least so many elements."""
    expect(what, value, list)
    if len(value) < length:
        raise RecordError(f"{what} must be a list of {length} elements, not of {len(value)}")
    return cast(list[Any], value)


def as_number(value: Any, what: str) -> float:
    """Return a value that has to be a number that a float holds."""
    expect(what, value, float)
    return float(to_plain(value, what))
