"""Explains syntax errors of Tile code."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from typing import Final

from autotune.errors import TileError
from autotune.tile.syntax.error_locations import tile_error_in
from autotune.tile.syntax.parse_advice import ParseFailure, advice

_TOKEN: Final = re.compile(r"#[^\n]*|[A-Za-z]\w*|[0-9.]+|->|[=!<>]=|\S")
_SPELLED: Final = {
    "FUNCTION": "'function'", "ARROW": "'->'", "LSQB": "'['", "RSQB": "']'", "QUESTION": "'?'",
    "PLUS": "'+'", "MINUS": "'-'", "STAR": "'*'", "SLASH": "'/'", "EQUAL": "'='",
    "SAME": "'=='", "OTHER": "'!='", "LESS": "'<'", "ATMOST": "'<='", "GREATER": "'>'",
    "ATLEAST": "'>='", "NAME": "a name", "NUMBER": "a number", "LPAR": "'('", "RPAR": "')'",
    "AMPERSAND": "'&'", "BAR": "'|'", "CARET": "'^'", "TILDE": "'~'", "UP": "'<<'",
    "DOWN": "'>>'", "NO_DEFRACT": "'no_defract'", "DEFAULT": "'default'",
    "LBRACE": "'{'", "RBRACE": "'}'", "COMMA": "','", "COLON": "':'", "SEMICOLON": "';'",
    "$END": "the end of the text",
}  # fmt: skip
#: Replacements for characters that Tile does not have.
_INSTEAD: Final = {
    "%": "Tile has no remainder: x - y * floor(x / y) is one",
    "_": "names begin with a letter",
    "!": "write ~C for the opposite of a condition C",
    "'": "Tile has no strings",
    '"': "Tile has no strings",
    ".": "write 0.5 instead of .5",
    "\N{MINUS SIGN}": "write -",
    "\N{EN DASH}": "write -",
    "\N{MULTIPLICATION SIGN}": "write *",
    "\N{MIDDLE DOT}": "write *",
    "\N{RIGHTWARDS ARROW}": "write ->",
    "\N{NO-BREAK SPACE}": "write a plain space",
}


def unexpected(code: str, name: str, stop: ParseFailure) -> TileError:
    """Return the error for an unexpected token."""
    stop = _with_neighbours(code, stop)
    if "SEMICOLON" in stop.expected and _ends_a_statement(code, stop):
        return tile_error_in(
            code, name, stop.before_end, f"expected ';' after {stop.before[:30]!r}",
            "every statement ends in a semicolon",
        )  # fmt: skip
    if stop.kind == "$END":
        found = "the text ends too early"
    else:
        found = f"{stop.text[:30]!r} cannot stand here"
    return tile_error_in(
        code, name, stop.at, f"{found}; expected {_either(stop.expected)}", advice(stop)
    )


def _with_neighbours(code: str, stop: ParseFailure) -> ParseFailure:
    before = [m for m in _TOKEN.finditer(code, 0, stop.at) if not m[0].startswith("#")]
    if before:
        stop = replace(stop, before=before[-1][0], before_end=before[-1].end())
    after = _TOKEN.search(code, stop.at + len(stop.text))
    return replace(stop, after=after[0]) if after else stop


def _ends_a_statement(code: str, stop: ParseFailure) -> bool:
    """Whether a token can only follow a complete statement."""
    if stop.kind != "NAME":
        return stop.kind in ("RBRACE", "$END")
    return "\n" in code[stop.before_end : stop.at] or stop.after in ("=", "[")


def _either(expected: Collection[str]) -> str:
    words = sorted(_SPELLED.get(kind, kind) for kind in expected)
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def unknown_character(code: str, name: str, at: int) -> TileError:
    """Return the error for a character that Tile does not have."""
    character = code[at]
    wanted = _INSTEAD.get(character, "")
    if character == "." and not code[at + 1 : at + 2].isdigit():
        wanted = "Tile has no attributes: sizes are dimensions in the header"
    return tile_error_in(code, name, at, f"{character!r} is not a character of Tile", wanted)
