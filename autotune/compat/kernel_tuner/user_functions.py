"""Calls of the user's functions, whose errors are told in one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autotune.errors import UsageError, error_text
from autotune.system.words import one_line


def called(what: str, function: Callable[..., Any], *args: Any, **given: Any) -> Any:
    """Return what a function of the user returns; UsageError, in one line, if it raises.

    `what`: which one it is, for the message, such as "metric 'GB/s'".
    """
    try:
        return function(*args, **given)
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(f"{what} fails: {told(error)}") from error


def told(error: BaseException) -> str:
    """Return an error in one line."""
    return f"{type(error).__name__}: {one_line(error_text(error))}"
