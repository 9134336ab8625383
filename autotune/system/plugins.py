"""Finds what users add to autotune: tuners, cost models, measurers, operators, devices.

An installed package names them in an entry-point group for each kind, such as `autotune.tuners`.
These are read when a name is not built in, and only what is asked for is imported.
"""

from __future__ import annotations

import inspect
import logging
import os
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from autotune.errors import AutotuneError, UsageError, error_text
from autotune.system.user_modules import load_object, what_failed
from autotune.system.words import did_you_mean, one_line
from records.caller_warnings import is_own

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


def names_place(choice: object) -> bool:
    """Whether a choice names an object by its module or file, which have to be loaded for it."""
    return isinstance(choice, str) and ":" in choice


def find_maker(
    kind: str, choice: str | Callable[..., Any], builtin: Mapping[str, Callable[..., Any]]
) -> Callable[..., Any]:
    """Return the class or function that makes a tuner, cost model, or the like.

    kind: such as "tuner".
    choice: a name as in `find_plugin`, the name of a built-in one, or the class or function itself.

    UsageError if there is none.
    """
    if isinstance(choice, str) and choice in builtin:
        return builtin[choice]
    found = find_plugin(kind, choice, builtin) if isinstance(choice, str) else choice
    if not callable(found):
        what = type(found).__name__
        raise UsageError(f"{kind} {name_of(choice)!r} must be a class or a function, not {what}")
    return found


def name_of(given: object) -> str:
    """Return what messages and records call an object that was given as a name or as itself."""
    if isinstance(given, str):
        return given
    named = getattr(given, "__qualname__", None)
    return f"{given.__module__}:{named}" if named else type(given).__qualname__


def make_object(make: Callable[..., Any], what: str, *args: Any, **more: Any) -> Any:
    """Call a user's class or function, and return the object that it makes.

    what: the object in words, for the beginning of messages.
    more: keyword arguments, of which only those are passed that it has parameters for.

    AutotuneError if it fails.
    """
    with errors_of(f"{what} cannot be made"):
        try:
            parameters: Mapping[str, Any] = inspect.signature(make).parameters
        except ValueError:  # what is written in C may not tell them
            parameters = {}
        takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        wanted = {name: more[name] for name in more if takes_all or name in parameters}
        return make(*args, **wanted)


@contextmanager
def errors_of(what: str) -> Iterator[None]:
    """Raise an AutotuneError of one line in place of what the code of a user raises.

    what: what it does, as the message begins.
    """
    try:
        yield
    except AutotuneError:
        raise
    except (Exception, SystemExit) as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if not is_own(f.filename)]
        where = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
        raise AutotuneError(one_line(f"{what}: {what_failed(error)}{where}")) from error
