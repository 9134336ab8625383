"""Writing to the terminal or the pipe: whole lines, one line per mistake, no fuss when cut off."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from typing import TextIO

from autotune.errors import UsageError

WIDTH = 80
"""Columns to fill where there is no terminal to ask."""


class StopError(Exception):
    """A command ends early: exit code and one line for the standard error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def prepare_streams() -> None:
    """Make both streams print any text: what the encoding lacks is escaped."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def width() -> int:
    """Columns to fill: the terminal's, 80 if the output goes elsewhere."""
    if not sys.stdout.isatty():
        return WIDTH
    return max(20, shutil.get_terminal_size((WIDTH, 24)).columns)


def say(text: str) -> None:
    """Print to the standard output at once; a reader that has gone away is no error.

    Raises
    ------
    UsageError
        If the output cannot be written for another reason.
    """
    try:
        print(text, flush=True)
    except BrokenPipeError:
        _discard(sys.stdout)
    except OSError as error:
        _discard(sys.stdout)
        raise UsageError(f"cannot write the output: {error.strerror}") from error


def complain(text: str) -> None:
    """Print one line to the standard error."""
    try:
        print(f"autotune: {one_line(text)}", file=sys.stderr, flush=True)
    except OSError:
        _discard(sys.stderr)  # nobody is left to be told


def one_line(text: str) -> str:
    """Return a text as one line; characters that steer a terminal are escaped."""
    words = " ".join(text.split())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in words)


def _discard(stream: TextIO) -> None:
    """Let what is still written to a stream vanish."""
    with contextlib.suppress(OSError, ValueError), open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


class _OneLineHandler(logging.Handler):
    """Prints each logged warning as one line; the same warning once."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._said: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if message not in self._said:
            self._said.add(message)
            complain(f"warning: {message}")


@contextlib.contextmanager
def shown_warnings() -> Iterator[None]:
    """Print warnings and logged warnings as one line each, without where they come from."""
    from records.errors import RecordWarning

    def show(message: Warning | str, category: type[Warning], *_: object) -> None:
        if issubclass(category, UserWarning):
            complain(f"warning: {message}")  # others are for developers

    handler = _OneLineHandler()
    logging.getLogger().addHandler(handler)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.simplefilter("ignore", RecordWarning)  # logged, too
            warnings.showwarning = show  # type: ignore[assignment]
            yield
    finally:
        logging.getLogger().removeHandler(handler)
