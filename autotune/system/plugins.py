"""Finds what users add to autotune: tuners, cost models, measurers, operators, devices.

An installed package names them in an entry-point group for each kind, such as `autotune.tuners`.
These are read when a name is not built in, and only what is asked for is imported.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from autotune.errors import UsageError, error_text
from autotune.system.user_modules import load_object
from autotune.system.words import did_you_mean, one_line

_log = logging.getLogger(__name__)


def entry_points(*kinds: str) -> dict[str, str]:
    """Return where installed packages have objects of some kinds, by name; of two the first counts.

    kinds: such as "cost model"; its group is `autotune.cost_models`.
    """
    import importlib.metadata  # slow import

    groups = [f"autotune.{kind.replace(' ', '_')}s" for kind in kinds]
    found: dict[str, str] = {}
    for package in importlib.metadata.distributions():
        try:
            for point in package.entry_points:
                if point.group in groups:
                    found.setdefault(point.name, point.value)
        except Exception as error:  # a damaged file; it is nobody else's fault
            where = getattr(package, "_path", "a package")
            _log.warning(one_line(f"{where}: unreadable entry points: {error_text(error)}"))
    return found


def find_plugin(kind: str, name: str, builtin: Iterable[str]) -> Any:
    """Return the object that users have added under a name.

    kind: such as "tuner".
    name: of an entry point, or ``module:name`` or ``path/to/file.py:name``.
    builtin: the names that would have been known without users.

    UsageError if there is none, or it cannot be imported.
    """
    installed = entry_points(kind)
    location = installed.get(name, name)
    if ":" not in location:
        known = [*builtin, *installed]
        raise UsageError(f"unknown {kind} {name!r}: {did_you_mean(name.lower(), known)}")
    return load_object(location, f"{kind} {name!r}")


def name_of(given: object) -> str:
    """Return what messages and records call an object that was given as a name or as itself."""
    if isinstance(given, str):
        return given
    named = getattr(given, "__qualname__", None)
    return f"{given.__module__}:{named}" if named else type(given).__qualname__
