"""What importers meet in a file that is not as its tool writes it."""

from __future__ import annotations

MALFORMED = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What reading raises where a value has another type or size, is missing, or is no number."""

_MAX_SAID = 200


def describe_error(error: Exception) -> str:
    """Return in one short line what is wrong, for a message that says where it is."""
    text = f"{error} is missing" if isinstance(error, KeyError) else str(error)
    text = " ".join(text.split())
    return text if len(text) <= _MAX_SAID else f"{text[: _MAX_SAID - 3]}..."
