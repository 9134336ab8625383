"""Checks the responses of workers: code of a template may have written to the channel itself.

A response of another form counts as a failure of the candidate, like bytes that are no message.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

Check = Callable[[Any], bool]


def invalid_reason(role: str, op: str, body: Mapping[str, Any]) -> str | None:
    """Return the key that is missing, wrong or unknown in a response; None if it is valid.

    Parameters
    ----------
    role : str
        Role of the worker: "build", or else a runner.
    op : str
        The request: "open", "build", "run", "enter", "round", "ceiling" or "baseline".
    body : mapping
        The JSON object that came.
    """
    expected = {**_ALWAYS, **_expected(role, op, body)}
    for key in sorted(expected.keys() | body.keys()):
        if key not in body or key not in expected or not expected[key](body[key]):
            return key
    return None


def _expected(role: str, op: str, body: Mapping[str, Any]) -> Mapping[str, Check]:
    """Return the keys that this kind of response has. The first key says which kind it is."""
    if op == "open":
        kinds = [_REFUSAL, _DESCRIPTION, {}] if role == "build" else [_REFUSAL, _OPENED]
    else:
        kinds = [_FAILURE, _ANSWERS[op]]
    return next((kind for kind in kinds if next(iter(kind), None) in body), kinds[-1])


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_number_or_none(value: Any) -> bool:
    return value is None or _is_number(value)


def _is_finite(value: Any) -> bool:
    return _is_number(value) and math.isfinite(value)


def _is_positive(value: Any) -> bool:
    return _is_finite(value) and value > 0


def _is_span(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_finite, value))


def _are_costs(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_positive, value))


def _is_error(value: Any) -> bool:
    return isinstance(value, dict) and all(
        _is_text(value.get(key)) for key in ("code", "stage", "message")
    )


def _is_ceiling(value: Any) -> bool:
    if not isinstance(value, dict) or not _is_positive(value.get("copy_bytes_s")):
        return False
    peaks = value.get("peak_flops")
    library = value.get("library_s")
    known = isinstance(peaks, dict) and all(map(_is_positive, peaks.values()))
    return known and (library is None or _is_positive(library))


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _are_kernels(value: Any) -> bool:
    return value is None or (
        isinstance(value, list)
        and all(isinstance(kernel, dict) and _is_text(kernel.get("name")) for kernel in value)
    )


def _are_clocks(value: Any) -> bool:
    return value is None or (isinstance(value, dict) and all(map(_is_number, value.values())))


def _is_code(value: Any) -> bool:
    return value is None or isinstance(value, dict)


_ALWAYS: dict[str, Check] = {"seconds": _is_finite, "span": _is_span}

_REFUSAL: dict[str, Check] = {"refused": _is_text}
_FAILURE: dict[str, Check] = {
    "error": _is_error,
    "max_error": _is_number_or_none,
    "fatal": _is_flag,
}
_DESCRIPTION: dict[str, Check] = {
    "subject": lambda value: isinstance(value, dict),
    "binary": _is_code,
}
_OPENED: dict[str, Check] = {
    "reference": _is_text,
    "notes": _are_texts,
    "checks": _are_texts,
}

_ANSWERS: dict[str, dict[str, Check]] = {
    "build": {"code_hash": _is_text, "binary": _is_code, "kernels": _are_kernels},
    "run": {
        "costs_s": _are_costs,
        "max_error": _is_number_or_none,
        "raced": _is_flag,
        "noise": _is_number_or_none,
        "clocks": _are_clocks,
    },
    "enter": {"max_error": _is_number_or_none},
    "round": {"costs_s": _are_costs, "noise": _is_number_or_none, "clocks": _are_clocks},
    "baseline": {"baseline": lambda value: value is None or _are_costs(value)},
    "ceiling": {"ceiling": _is_ceiling, "notes": _are_texts},
}
