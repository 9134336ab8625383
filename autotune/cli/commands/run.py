"""`autotune run`: search for the fastest configuration of workloads, and log measurements."""

from __future__ import annotations

import time
from inspect import Parameter, Signature
from typing import Any

import typer

from autotune.cli.options.multi_value_options import Command
from autotune.cli.options.run_options import given_options, on_command_line
from autotune.cli.options.shared_options import command_app
from autotune.cli.terminal.signals import ending_signals
from autotune.errors import UsageError
from autotune.measure.pool.fork_server_client import ForkServerProcess
from autotune.system.environment_variables import load_numpy_for_one_thread


def run(context: typer.Context, quiet: bool, json_lines: bool, **_: Any) -> None:
    """Search for the fastest configuration; log measurements.

    Run it again and nothing is measured twice; a larger --trials continues. Ctrl-C keeps what was
    measured.
    """
    begin = time.monotonic()
    if quiet and json_lines:
        raise UsageError("--quiet and --json-lines cannot be given together: give one of them")
    view = "quiet" if quiet else "json-lines" if json_lines else "progress"
    with ending_signals(), ForkServerProcess() as fork_server:
        # The fork server imports the same modules meanwhile, so it starts before large imports.
        load_numpy_for_one_thread()  # before anything else imports it
        from autotune.cli.options.job_files import run_options

        options = run_options(*given_options(context), view)
        from autotune.cli.commands.run_workloads import run_workloads  # if there is what to run

        run_workloads(options, begin, fork_server)


_CONTEXT = Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context)
run.__signature__ = Signature([_CONTEXT, *on_command_line()])  # type: ignore[attr-defined]

app = command_app()
app.command(cls=Command)(run)
