"""Text from files for a terminal: control characters are shown in place of being executed."""

from __future__ import annotations

import unicodedata

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
