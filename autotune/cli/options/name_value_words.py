"""Words of the form NAME=VALUE on a command line."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.errors import UsageError

_EXAMPLES = {
    "--set": "NAME=VALUE, such as --set n=512",
    "--shape": "NAME=SIZE,SIZE, such as --shape X=4,5",
    "--rank": "NAME=RANK, such as --rank X=2",
    "--constant": "INPUT=FILE, such as --constant B=weights.npy",
}


def parse_settings(settings: Sequence[str] | None, option: str = "--set") -> dict[str, str]:
    """Read NAME=VALUE words of an option; spaces around the name and the value do not count.

    UsageError if a word is not of that form, or a name is given twice.
    """
    values: dict[str, str] = {}
    for setting in settings or ():
        name, equals, value = (part.strip() for part in setting.partition("="))
        if not name or not equals or not value:
            example = _EXAMPLES[option]
            raise UsageError(f"{option} {setting!r}: expected {example}")
        if name in values:
            raise UsageError(f"{option} gives {name} twice: {values[name]} and {value}")
        values[name] = value
    return values
