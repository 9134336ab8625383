"""`autotune build`: the best configuration as a shared library with a C header."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from autotune.build_records import record_source
from autotune.builder import BuiltFunction, build_task
from autotune.cli.commands.best import BY_TRIALS
from autotune.cli.options.input_files import check_logs, read_array
from autotune.cli.options.multi_value_options import Command
from autotune.cli.options.shared_options import (
    AnyDevice,
    Reuse,
    Set,
    Shape,
    TargetText,
    TemplateName,
    command_app,
    parse_settings,
)
from autotune.cli.options.task_arguments import make_task
from autotune.cli.terminal.output import NOTHING_FOUND, StopError, print_line
from autotune.cli.terminal.signals import ending_signals
from autotune.errors import NoRecordError, UsageError
from autotune.report.units import Work, time_text
from autotune.reuse.policy import ReusePolicy
from autotune.runtime.argument_checks import Array
from autotune.runtime.save_library import check_can_save
from records.log_set import PRETUNED

app = command_app()


@app.command(cls=Command)
def build(
    template: TemplateName,
    settings: Set = None,
    shapes: Shape = None,
    constants: Annotated[
        list[str] | None,
        typer.Option(
            "--constant",
            metavar="INPUT=FILE ...",
            help="Arrays (.npy) of inputs that do not change, by name or position.",
        ),
    ] = None,
    target: TargetText = "llvm",
    log: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE ...",
            help="Logs, or folders of logs, whose best record to use.  [the default config]",
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="The library.  [TEMPLATE.so]"),
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the function.  [TEMPLATE]")
    ] = None,
    reuse: Reuse = "exact",
    any_device: AnyDevice = False,
    missing: Annotated[
        str,
        typer.Option(
            metavar="WHAT", help="Without a record: default, error, nearest (record) or tune."
        ),
    ] = "default",
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail without a record, as --missing error.")
    ] = False,
    guard: Annotated[
        bool,
        typer.Option(
            "--guard", help="Time the recorded and the default configuration; build the faster."
        ),
    ] = False,
) -> None:
    """Compile the best configuration into a shared library.

    A C header is written next to it. Python calls it by autotune.load(FILE), without a compiler.
    """
    logs = log or []
    with ending_signals(), redirect_stdout(sys.stderr):  # a template's output is not the result
        warnings.filterwarnings("ignore", "no records given")  # the line below says so
        task = make_task(template, settings, shapes, target)
        policy = ReusePolicy(
            reuse=reuse,
            devices="any" if any_device else "same",
            missing=_missing(missing, strict, logs),
            guard=guard,
        )
        named = [log for log in logs if log != PRETUNED]  # if none ships, `missing` decides
        if policy.missing == "tune":
            named = [log for log in named if os.path.lexists(log)]
        check_logs(named)
        records, store = record_source(logs or None, must_exist=policy.missing != "tune")
        given = _constants(constants)
        path = Path(output if output is not None else f"{task.template.name}.so")
        check_can_save(path, task.target)
        try:
            function = build_task(task, records, name, given, policy, store)
        except NoRecordError as error:
            raise StopError(NOTHING_FOUND, str(error)) from error
        function.save(path)
        work = None if function.record is None else Work.of(task)
    made = f"{path} and {path.with_suffix('.h')}"
    chosen = _chosen_text(function, work, logs)
    print_line(f"{made}: {function.workload} on {task.target}, {chosen}")


def _missing(missing: str, strict: bool, logs: Sequence[str]) -> str:
    """Return what to do without a record, by --missing and --strict; UsageError if they clash."""
    if strict and missing not in ("default", "error"):
        raise UsageError(f"--strict and --missing {missing} exclude each other: choose one")
    if missing == "tune" and not logs:
        raise UsageError("--missing tune appends its measurements to a log: name one by --log")
    return "error" if strict else missing


def _chosen_text(function: BuiltFunction, work: Work | None, logs: Sequence[str]) -> str:
    """Return which configuration was built, how fast it was, and where its record is from.

    `work`: the work of one call; None without a record.
    """
    assert function.config is not None  # a task's always has one
    chosen = f"config {function.config.index}"
    if function.record is None or work is None:
        return f"{chosen}, the default one (`autotune run` tunes it)"
    cost_s = function.record.cost_s
    chosen += f", {time_text(cost_s)}, {work.speed_text(cost_s)} in {' and '.join(logs)}"
    if function.choice is not None and function.choice.text:
        chosen += f", {function.choice.text}"
    if function.record.is_trial:
        chosen += f" ({BY_TRIALS})"
    return chosen


def _constants(words: Sequence[str] | None) -> dict[str | int, Array]:
    """Return the arrays of constant inputs that --constant names."""
    files = parse_settings(words, "--constant")
    return {
        int(name) if name.isdecimal() else name: read_array(file, "--constant")
        for name, file in files.items()
    }
