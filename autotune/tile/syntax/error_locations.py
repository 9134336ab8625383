"""Makes errors that point into Tile code: line, column, the line itself and a caret."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from autotune.errors import TileError, UsageError
from autotune.system.words import closest
from autotune.tile.syntax.syntax_tree import Function, Span

#: Number of characters shown on either side of the caret in a long line.
_AROUND: Final = 80
#: Largest length of a message, because names and numbers may have any length.
_LONGEST: Final = 400


def tile_error(function: Function, span: Span, problem: str, advice: str = "") -> TileError:
    """Return an error at a place of a function."""
    return tile_error_in(function.source, function.name, span.start, problem, advice)


def tile_error_in(source: str, name: str, at: int, problem: str, advice: str = "") -> TileError:
    """Return an error at an offset of a text."""
    start = source.rfind("\n", 0, at) + 1
    end = source.find("\n", at)
    text = source[start : end if end >= 0 else len(source)]
    column = at - start
    cut = max(column - _AROUND, 0)
    shown = "".join(c if c.isprintable() else " " for c in text[cut : column + _AROUND])
    line = source.count("\n", 0, start) + 1
    said = _cut(problem), name, line, column + 1, shown.rstrip(), column - cut, _cut(advice)
    return TileError(*said)


def _cut(text: str) -> str:
    half = _LONGEST // 2
    return text if len(text) <= _LONGEST else f"{text[:half]} ... {text[-half:]}"


def unknown(function: Function, what: str, name: str, known: Iterable[str]) -> UsageError:
    """Return the error for a name that the header does not have."""
    names = sorted(known)
    hint = nearest(name, names)
    return UsageError(
        f"{function.name} has no {what} {name} in its header: there are "
        f"{', '.join(names) or 'none'}" + (f"; {hint}" if hint else "")
    )


def nearest(word: str, known: Iterable[str]) -> str:
    """Return ``"did you mean ...?"`` if a known word is much like this one, else ""."""
    found = closest(word, known)
    return f"did you mean {found}?" if found else ""
