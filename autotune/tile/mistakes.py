"""Makes errors that point into Tile code: line, column, the line itself and a caret."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

from autotune.errors import TileError
from autotune.tile.syntax import Function, Span

#: How much of a long line is shown on either side of the caret.
_AROUND: Final = 80


def mistake(function: Function, span: Span, problem: str, advice: str = "") -> TileError:
    """Return the error that says what is wrong at a place of a function."""
    return mistake_in(function.source, function.name, span.start, problem, advice)


def mistake_in(source: str, name: str, at: int, problem: str, advice: str = "") -> TileError:
    """Return the error that says what is wrong at an offset of a text."""
    start = source.rfind("\n", 0, at) + 1
    end = source.find("\n", at)
    text = source[start : end if end >= 0 else len(source)]
    column = at - start
    cut = max(column - _AROUND, 0)
    shown = "".join(c if c.isprintable() else " " for c in text[cut : column + _AROUND])
    line = source.count("\n", 0, start) + 1
    return TileError(problem, name, line, column + 1, shown.rstrip(), column - cut, advice)


def nearest(word: str, known: Iterable[str]) -> str:
    """Return ``"did you mean ...?"`` if a known word is much like this one, else ""."""
    words = list(known)
    found = [w for w in words if w.lower() == word.lower()]
    found += difflib.get_close_matches(word, words, 1)
    return f"did you mean {found[0]}?" if found else ""


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return "1 index", "2 indices"."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"
