"""The command `autotune`: runs a command and turns what went wrong into a line and an exit code.

0: done; 2: the user's mistake; 3: nothing valid was found;
130: interrupted, and a run that another signal ends: 128 + its number.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from autotune.cli.output import StopError, complain, prepare_streams
from autotune.cli.signals import exit_code
from autotune.errors import AutotuneError

DONE, MISTAKE, NOTHING_FOUND = 0, 2, 3


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (by default the process's) and return its exit code."""
    prepare_streams()
    try:
        return _dispatch(list(sys.argv[1:] if argv is None else argv))
    except StopError as stop:
        complain(str(stop))
        return stop.code
    except KeyboardInterrupt as interrupt:
        complain("interrupted")
        return exit_code(interrupt)
    except AutotuneError as error:
        complain(str(error))
        return MISTAKE


def _dispatch(args: list[str]) -> int:
    import typer

    from autotune.cli.app import app
    from autotune.cli.output import shown_warnings

    command = typer.main.get_command(app)
    try:
        # Not command(): it would print mistakes in boxes and end the process itself.
        with shown_warnings(), command.make_context("autotune", args) as context:
            command.invoke(context)
    except typer.Exit as done:
        return done.exit_code
    except Exception as error:
        message = _usage_message(error)
        if message is None:
            raise
        raise StopError(MISTAKE, message) from error
    return DONE


def _usage_message(error: Exception) -> str | None:
    """Return the line for an exception that stands for a user's mistake; None for any other."""
    # The option parser's exceptions come from click or from Typer's own copy of it, depending on
    # the version; what they share is this method.
    say = getattr(error, "format_message", None)
    if say is not None:
        context = getattr(error, "ctx", None)
        hint = f" (see `{context.command_path} --help`)" if context is not None else ""
        return f"{str(say()).rstrip('.')}{hint}"
    from records.errors import RecordError
    from search_spaces.errors import SpaceError

    return str(error) if isinstance(error, RecordError | SpaceError) else None
