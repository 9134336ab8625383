"""Parses lines of JSON; only this file imports orjson."""

from __future__ import annotations

import codecs
import json
import re
import sys
from collections.abc import Iterable

import orjson

from records.record_errors import RecordError

MAX_NESTED = 64  # Largest depth of nested objects and lists.

MAX_DIGITS = sys.int_info.default_max_str_digits  # Of an integer that Python's parser reads.

_TOO_LONG = re.compile(rb"\d{%d}" % (MAX_DIGITS + 1))
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_OPENED = re.compile(rb"[\[{]{%d}" % (MAX_NESTED + 1))
_SHOWN = 20  # characters of a line that is no JSON


def parse_plain(line: bytes) -> object | None:
    """Return the value of a line of JSON, or None if it may not be plain data as records hold it.

    Whatever is returned has finite numbers only, and is nested at most `MAX_NESTED` deep.
    """
    if _may_be_deep(line) or may_have_long_integer(line):
        return None
    try:
        found: object = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return found


def has_rounded(*values: object) -> bool:
    """Whether values of `parse_plain` may have lost digits: integers beyond 64 bits are floats."""
    for value in values:
        if type(value) is float and abs(value) >= 2**63:
            return True
        inside = value.values() if isinstance(value, dict) else value
        if isinstance(inside, Iterable) and not isinstance(inside, str) and has_rounded(*inside):
            return True
    return False


def may_have_long_integer(line: bytes) -> bool:
    """Whether a line may have an integer of more than `MAX_DIGITS`, which `parse_json` refuses.

    Fast parsers read it as infinite, and let a later value of the same key hide it.
    """
    return len(line) > MAX_DIGITS and _TOO_LONG.search(line) is not None


def parse_json(line: bytes) -> object:
    """Return the value of a line of JSON.

    ValueError if it is none, RecordError if it has NaN or an infinite number, RecursionError if it
    is nested too deeply.
    """

    def refuse(constant: str) -> object:
        raise RecordError(f"{constant} is not a valid JSON number")

    try:
        text = line.removeprefix(codecs.BOM_UTF8).decode("utf-8", "surrogatepass")
        return json.loads(text, parse_constant=refuse)
    except UnicodeDecodeError as error:
        raise ValueError("it is not text in UTF-8") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"{text.strip()[:_SHOWN]!r} is not JSON") from error


def compact_json(data: object) -> str:
    """Return plain data as JSON."""
    try:
        return orjson.dumps(data).decode()
    except TypeError:  # integers of more than 64 bits, halves of characters
        return json.dumps(data, separators=(",", ":"), ensure_ascii=False)


def canonical_json(data: object) -> str:
    """Return plain data as JSON, the same text whatever the order of keys."""
    try:
        return orjson.dumps(data, option=orjson.OPT_SORT_KEYS).decode()
    except (TypeError, ValueError):  # integers of more than 64 bits, halves of characters
        return json.dumps(data, sort_keys=True, separators=(",", ":"))


def _may_be_deep(line: bytes) -> bool:
    """Whether lists and objects may be nested deeper than `MAX_NESTED`.

    Each pass removes the innermost level; brackets in texts make this say yes where it is no.
    """
    if line.count(b"[") + line.count(b"{") <= MAX_NESTED:
        return False
    brackets = line.translate(None, _NO_BRACKETS)
    if _OPENED.search(brackets):
        return True
    for _ in range(MAX_NESTED):
        if not brackets:
            return False
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    return bool(brackets)
