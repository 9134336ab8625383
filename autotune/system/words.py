"""Text of messages: plurals, lists, suggestions for misspelt names, escaped control characters."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return "1 index", "2 indices"."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


_NAMED = 3  # Names that a message lists, at most.


def named(names: Iterable[str]) -> str:
    """Return the first few of some names, each once, and the number of the others."""
    known = list(dict.fromkeys(names))
    more = f" and {len(known) - _NAMED} more" if len(known) > _NAMED else ""
    return f"{', '.join(known[:_NAMED])}{more}"


def closest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that `word` looks like, if any does."""
    words = list(known)
    same = (w for w in words if w.lower() == word.lower())
    return next(same, next(iter(difflib.get_close_matches(word, words, n=1)), None))


def did_you_mean(word: str, known: Iterable[str], otherwise: str = "expected one of") -> str:
    """Return a hint for a message: the word that is meant, or else all that are known."""
    words = list(known)
    likely = closest(word, words)
    return f"did you mean {likely!r}?" if likely else f"{otherwise} {', '.join(words)}"


# Categories of Unicode: controls, directions of writing, halves of characters, ends of lines.
_STEERING = ("Cc", "Cf", "Cs", "Zl", "Zp")


def printable(text: str) -> str:
    """Return a text in which only line feeds and tabs steer a terminal; all else is escaped."""
    if text.isprintable():
        return text
    return "".join(map(_shown, text))


def _shown(character: str) -> str:
    if character in "\n\t" or unicodedata.category(character) not in _STEERING:
        return character
    return character.encode("unicode_escape").decode()


def escaped(text: str) -> str:
    """Return a text as one line, all characters that steer a terminal escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def one_line(text: str) -> str:
    """Return a text as one line, white space merged; control characters are escaped."""
    return escaped(" ".join(text.split()))
