"""The options that a command line gives, without defaults."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

_GIVEN = ("COMMANDLINE", "ENVIRONMENT")


def given_options(
    context: Any, leave_out: Collection[str] = ()
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options that the command line gives, and those that the configuration file does.

    Parameters
    ----------
    context
        Typer's, of the command.
    leave_out : collection of str
        Options of no interest.

    Returns
    -------
    words, defaults : dict of str to value
        By long name without dashes; an argument by its name.
    """
    words: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    for parameter in context.command.params:
        long = [name for name in parameter.opts if name.startswith("--")]
        name = long[0].removeprefix("--") if long else parameter.name
        source = context.get_parameter_source(parameter.name)
        if source is None or name in leave_out:
            continue
        if source.name in _GIVEN:
            words[name] = context.params[parameter.name]
        elif source.name == "DEFAULT_MAP":
            defaults[name] = context.params[parameter.name]
    return words, defaults
