"""The command `autotune`: runs a command and turns what went wrong into a line and an exit code.

0: done; 2: the user's mistake; 3: nothing valid was found;
130: interrupted, and a run that another signal ends: 128 + its number.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import logging
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import typer

from autotune.cli.app import app
from autotune.cli.options.config_file import config_file
from autotune.cli.terminal.output import (
    DONE,
    MISTAKE,
    Messages,
    StopError,
    note,
    output_failed,
    output_works,
    prepare_streams,
    print_error,
)
from autotune.cli.terminal.signals import exit_code
from autotune.errors import AutotuneError, TileError, UsageError
from autotune.system.words import printable
from records.record_errors import RecordError

_log = logging.getLogger(__name__)

_VERBOSE = ("-v", "--verbose")

# Errors of the system, such as a full disk or a missing permission; never our own errors.
_SYSTEM = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO),
    *(errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.ELOOP, errno.ENAMETOOLONG),
    errno.EFBIG,
}


def entry() -> NoReturn:
    """Run the process's command line and leave at once.

    Threads and exit handlers that templates have left behind are not waited for: they may hang.
    """
    code = main()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # this error has been reported
            stream.flush()
    os._exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (by default the process's) and return its exit code."""
    prepare_streams()
    with Messages() as messages:
        try:
            _check_current_folder()
            return _dispatch(list(sys.argv[1:] if argv is None else argv), messages)
        except (StopError, AutotuneError, KeyboardInterrupt) as end:
            _log.debug("it ended here", exc_info=True)
            return _report_end(end)
        except OSError as error:
            return _refused(error)


def _check_current_folder() -> None:
    """UsageError if the current folder no longer exists: relative paths mean nothing then."""
    try:
        _ = os.getcwd()
    except FileNotFoundError as error:
        raise UsageError("the current folder has been deleted; change to another one") from error


def _report_end(end: BaseException) -> int:
    """Print in one line why a command ended early, and return its exit code."""
    if isinstance(end, KeyboardInterrupt):
        print_error("interrupted")
        return exit_code(end)
    if isinstance(end, TileError):  # shows the line of the code, with a caret below
        first, *rest = str(end).splitlines()
        print_error(first)
        for line in rest:
            note(printable(line))
        return MISTAKE
    print_error(str(end))
    return end.code if isinstance(end, StopError) else MISTAKE


def _refused(error: OSError) -> int:
    """Print an error of the system in one line; return the exit code, or raise the error."""
    if not output_works():  # the help is not printed by us
        try:
            output_failed(error)
        except AutotuneError as end:
            return _report_end(end)
        return DONE
    if error.errno not in _SYSTEM:
        raise error
    where = "" if error.filename is None else f": {error.filename}"
    print_error(f"the system refuses to go on: {error.strerror}{where}")
    return MISTAKE


def _dispatch(args: list[str], messages: Messages) -> int:
    command = _command()
    try:
        # Not command(): it would print mistakes in boxes and end the process itself.
        with command.make_context("autotune", _verbose_first(args), obj=messages) as context:
            command.invoke(context)
    except typer.Exit as done:
        return done.exit_code
    except Exception as error:
        message = _usage_message(error)
        if message is None:
            raise
        raise StopError(MISTAKE, message) from error
    return DONE


@functools.cache
def _command() -> Any:
    """Return the parser of command lines, which is made once in a process from the signatures."""
    return typer.main.get_command(app)


def _verbose_first(args: list[str]) -> list[str]:
    """Return the words with `--verbose` before the command, which has it for all of them."""
    first = [word for word in args if word in _VERBOSE]
    return first + [word for word in args if word not in _VERBOSE]


def _usage_message(error: Exception) -> str | None:
    """Return the line for an exception that a user's mistake caused; None for any other."""
    # The option parser's exceptions come from click or from Typer's own copy of it, depending on
    # the version; what they share is this method.
    say = getattr(error, "format_message", None)
    if say is not None:
        return f"{str(say()).rstrip('.')}{_hint(error)}"
    from search_spaces.knob import SpaceError  # loads NumPy, so not before it is needed

    return str(error) if isinstance(error, RecordError | SpaceError) else None


def _hint(error: Exception) -> str:
    """Return a hint: config.toml if the value is from there, else the help."""
    context, option = getattr(error, "ctx", None), getattr(error, "param", None)
    if context is None:
        return ""
    source = context.get_parameter_source(option.name) if option is not None else None
    if source is not None and source.name == "DEFAULT_MAP":
        return f" (set in {config_file()})"
    return f" (see `{context.command_path} --help`)"
