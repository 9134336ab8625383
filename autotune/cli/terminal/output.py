"""Writes to the terminal or the pipe: whole lines, one line per error or warning.

`--verbose` adds everything else that the library logs, with times.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import select
import shutil
import sys
import time
import warnings
from typing import TextIO

from autotune.errors import UsageError
from autotune.system.words import one_line, printable
from records.record_errors import RecordWarning

WIDTH = 80  # Columns to fill where there is no terminal to ask.

# Exit codes; a run that a signal ends exits with 128 + its number.
DONE, DIFFERENT, MISTAKE, NOTHING_FOUND = 0, 1, 2, 3


class StopError(Exception):
    """A command ends early: exit code and one line for the standard error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def prepare_streams() -> None:
    """Make both streams print any text; characters that the encoding lacks are escaped.

    The number of a stream that is closed is taken, lest a file opened later gets it, and with it
    what libraries print. Writing to a closed standard output fails; errors vanish.
    """
    modes = (("stdin", os.O_RDONLY), ("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY))
    for number, (name, mode) in enumerate(modes):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)  # gets the lowest number that is free: this one
        if getattr(sys, name) is None:
            opened = open(number, "w" if number else "r", closefd=False)  # noqa: SIM115, it stays
            setattr(sys, name, opened)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def width() -> int:
    """Columns to fill: the terminal's, 80 if the output goes elsewhere."""
    if not sys.stdout.isatty():
        return WIDTH
    return max(20, shutil.get_terminal_size((WIDTH, 24)).columns)


def print_line(text: str) -> None:
    """Print to the standard output; control characters are escaped. See `print_raw`."""
    print_raw(printable(text))


def print_raw(text: str) -> None:
    """Print to the standard output at once; a closed pipe is no error.

    UsageError if the output cannot be written for another reason.
    """
    try:
        sys.stdout.write(f"{text}\n")  # at once: an interrupt comes before a line or after it
        sys.stdout.flush()
    except OSError as error:
        output_failed(error)


def output_failed(error: OSError) -> None:
    """Stop writing to the standard output after an error; a closed pipe is no error.

    UsageError if it failed for another reason.
    """
    _discard(sys.stdout)
    if error.errno == errno.EBADF:
        raise UsageError("cannot write the output: it is closed") from error
    if not isinstance(error, BrokenPipeError):
        raise UsageError(f"cannot write the output: {error.strerror}") from error


def output_works() -> bool:
    """Return whether all output was written, and the pipe is still open."""
    try:
        sys.stdout.flush()
    except OSError:
        return False
    poller = select.poll()
    poller.register(1, 0)  # the end of a reader is reported unasked
    return not any(events & select.POLLERR for _, events in poller.poll(0))


def print_error(text: str) -> None:
    """Print one line to the standard error."""
    note(f"autotune: {one_line(text)}")


def note(text: str, end: str = "\n") -> None:
    """Print to the standard error; errors of writing are ignored."""
    try:
        sys.stderr.write(f"{text}{end}")
        sys.stderr.flush()
    except OSError:
        _discard(sys.stderr)  # nobody can read it any more


def _discard(stream: TextIO) -> None:
    """Discard all further output to a stream."""
    with contextlib.suppress(OSError, ValueError), open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


# Loggers of our packages; what others log below a warning is not shown.
LIBRARIES = ("autotune", "features", "search_spaces", "records")


class _Warnings(logging.Handler):
    """Prints each logged warning as one line; the same warning once."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._said: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if message not in self._said:
            self._said.add(message)
            print_error(f"warning: {message}")


class _Details(logging.Handler):
    """Prints log messages below a warning: time, level, module, message, and a traceback if any."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            return
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        head = f"{clock}.{int(record.msecs):03} {record.levelname.lower()} {record.name}"
        note(one_line(f"{head}: {record.getMessage()}"))
        if record.exc_info:
            for line in logging.Formatter().formatException(record.exc_info).splitlines():
                note(printable(f"  {line}"))


class Messages(contextlib.ExitStack):
    """Shows warnings and logged warnings inside its context, and details after `say_more`."""

    def __enter__(self) -> Messages:
        """Begin to show warnings."""

        def show(message: Warning | str, category: type[Warning], *_: object) -> None:
            if issubclass(category, UserWarning):
                print_error(f"warning: {message}")  # others are for developers

        super().__enter__()
        self._attach(_Warnings(), logging.getLogger())
        self.enter_context(warnings.catch_warnings())
        warnings.simplefilter("default")
        warnings.simplefilter("ignore", RecordWarning)  # logged, too
        warnings.showwarning = show  # type: ignore[assignment]
        return self

    def say_more(self) -> None:
        """Show all that our packages log, from here on."""
        details = _Details()
        for name in LIBRARIES:
            logger = logging.getLogger(name)
            self._attach(details, logger)
            self.callback(logger.setLevel, logger.level)
            logger.setLevel(logging.DEBUG)

    def _attach(self, handler: logging.Handler, logger: logging.Logger) -> None:
        logger.addHandler(handler)
        self.callback(logger.removeHandler, handler)
