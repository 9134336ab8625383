"""config.toml in the user's config folder: defaults of options, in a table per command.

``[run]`` with ``trials = 256``, or ``[replay.compare]`` with ``budget = 100``. What the command
line says goes first.
"""

from __future__ import annotations

import logging
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autotune.cli.options.input_files import read_text
from autotune.cli.options.multi_value_options import takes_words
from autotune.errors import UsageError
from autotune.system.environment_variables import config_folder
from autotune.system.words import did_you_mean

_log = logging.getLogger(__name__)

# By command, or command within a group: values by the names that Typer's functions give them.
Defaults = dict[str, Any]


def config_file() -> Path:
    """Return the path of the file; it need not exist."""
    return config_folder() / "config.toml"


def load_defaults(command: Any) -> Defaults:
    """Return the defaults that the file gives to a group of commands; none if there is no file.

    command: the group, as Typer makes it. Values are checked by the options when they are used.

    UsageError if the file cannot be read, or names what is no command or no option of it.
    """
    path = config_file()
    if not path.exists():
        return {}
    try:
        tables = tomllib.loads(read_text(path))
    except ValueError as error:  # also of numbers of thousands of digits
        raise UsageError(f"{path} is not valid TOML: {error}") from error
    defaults = _of_group(command, tables, path, "")
    _log.info("defaults of %s: %s", path, tables)
    return defaults


def _of_group(group: Any, tables: Mapping[str, Any], path: Path, prefix: str) -> Defaults:
    found: Defaults = {}
    for name, table in tables.items():
        if name not in group.commands:
            problem = f"{path}: there is no command {prefix}{name}"
            raise UsageError(f"{problem}: {did_you_mean(name, group.commands)}")
        if not isinstance(table, dict):
            raise UsageError(f"{path}: {prefix}{name} must be a table, [{prefix}{name}]")
        command = group.commands[name]
        own = _of_group if hasattr(command, "commands") else _of_command
        found[name] = own(command, table, path, f"{prefix}{name}.")
    return found


def _of_command(command: Any, table: Mapping[str, Any], path: Path, prefix: str) -> Defaults:
    options = {
        name.removeprefix("--"): option
        for option in command.params
        for name in option.opts
        if name.startswith("--")
    }
    found: Defaults = {}
    for name, value in table.items():
        if name not in options:
            problem = f"{path}: [{prefix[:-1]}] has no option {name}"
            raise UsageError(f"{problem}: {did_you_mean(name, options)}")
        option = options[name]
        found[option.name] = _value(value, option, f"{path}: {prefix}{name}")
    return found


def _value(value: Any, option: Any, where: str) -> Any:
    """Return a value of the file as the option would find it on the command line."""
    flag, several = getattr(option, "is_flag", False), getattr(option, "multiple", False)
    if flag:
        if not isinstance(value, bool):
            raise UsageError(f"{where} must be true or false, not {value!r}")
        return value
    if takes_words(option) and not isinstance(value, list):
        value = [value]  # as on the command line, where several words may follow
    if several != isinstance(value, list):
        raise UsageError(f"{where} must be {'a list' if several else 'one value'}, not {value!r}")
    words = value if several else [value]
    for word in words:
        if isinstance(word, bool) or not isinstance(word, str | int | float):
            raise UsageError(f"{where} must be text or a number, not {word!r}")
    return [str(word) for word in words] if several else str(value)
