"""Shows warnings and log messages of the library on the standard error.

Warnings are one line each; `--verbose` adds all the rest, with times.
"""

from __future__ import annotations

import contextlib
import logging
import time
import warnings

from autotune.cli.terminal.output import note, one_line, print_error
from autotune.system.words import printable
from records.record_errors import RecordWarning

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
    """Prints what is logged below a warning: time, level, where, what; and a traceback if any."""

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
