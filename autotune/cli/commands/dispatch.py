"""`autotune dispatch`: one library for many shapes, of few kernels and a rule that picks one."""

from __future__ import annotations

import json
import logging
import os
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer

from autotune.cli.options.multi_value_options import Command
from autotune.cli.options.shared_options import (
    Json,
    Reuse,
    Set,
    TargetText,
    TemplateName,
    command_app,
    parse_settings,
)
from autotune.cli.options.task_arguments import logs_of, template_of
from autotune.cli.terminal.output import NOTHING_FOUND, StopError, print_line, width
from autotune.cli.terminal.signals import ending_signals
from autotune.errors import NoRecordError, UsageError
from autotune.operators.template_lookup import BUILTIN
from autotune.report.text_tables import table, wrap
from autotune.report.units import percent_text, time_text
from autotune.reuse.policy import ReusePolicy
from autotune.runtime.save_library import check_can_save
from autotune.shape_dispatch.dispatched_function import Dispatch
from autotune.shape_dispatch.dispatcher import dispatch_template
from autotune.shape_dispatch.selection import worst_and_mean
from autotune.target import Target

_log = logging.getLogger(__name__)

_MOST_PERCENT = 10_000.0

app = command_app()


@app.command(cls=Command)
def dispatch(
    template: TemplateName,
    log: Annotated[
        list[str], typer.Option("--log", metavar="FILE ...", help="Logs with several shapes.")
    ],
    settings: Set = None,
    target: TargetText = "llvm",
    within: Annotated[
        float,
        typer.Option(metavar="PERCENT", help="What a shape may lose to its own best kernel."),
    ] = 10.0,
    kernels: Annotated[
        int | None,
        typer.Option(metavar="N", help="Most kernels; shapes may lose more by it.  [any number]"),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="The library.  [TEMPLATE_any.so]"),
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the function.  [TEMPLATE]")
    ] = None,
    reuse: Reuse = "exact",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what shapes lose; write nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Make one library for many shapes, of the fewest kernels that suit all of them.

    The best configuration of each shape in the logs becomes a kernel for all sizes. They are timed
    on all shapes, which takes minutes, and what each shape loses is printed before anything is
    written. The library picks a kernel by sizes at each call.
    """
    with ending_signals(), redirect_stdout(sys.stderr):  # what a template prints was not asked for
        if not 0 <= within < _MOST_PERCENT:
            raise UsageError(f"--within must be a percentage such as 10, got {within:g}")
        parsed = Target.parse(target)
        found = template_of(template, parsed)
        given = found.parse_values(parse_settings(settings))
        path = Path(output if output is not None else f"{found.name}_any.so")
        if not dry_run:
            check_can_save(path, parsed)
        source = logs_of(log)
        try:
            made = dispatch_template(
                found, template, source, given, parsed,
                within=within / 100, most=kernels, policy=ReusePolicy(reuse=reuse), name=name,
                guarded=(template, found.target) not in BUILTIN,
            )  # fmt: skip
        except NoRecordError as error:
            raise StopError(NOTHING_FOUND, str(error)) from error
    print_line(json.dumps(_data(made, within)) if as_json else _text(made, within))
    if made.shortfall:
        _log.warning("%s", made.shortfall)
    if dry_run:
        return
    with ending_signals(), redirect_stdout(sys.stderr):
        made.save(path)
    if not as_json:
        print_line(f"{os.fspath(path)} and {path.with_suffix('.h')}: {made}")


def _text(made: Dispatch, within: float) -> str:
    rows = [
        [*(str(size) for size in s.sizes.values()), time_text(s.best_s), str(s.kernel),
         percent_text(s.loss), percent_text(s.left_out)]
        for s in made.shapes
    ]  # fmt: skip
    headers = [f"{n}#" for n in made.open_sizes]
    lines = [table([*headers, "best#", "kernel#", "loss#", "if unseen#"], rows, width())]
    worst, mean = worst_and_mean([s.loss for s in made.shapes])
    unseen, mean_unseen = worst_and_mean([s.left_out for s in made.shapes])
    kept = sum(s.loss <= within / 100 + 1e-9 for s in made.shapes)
    count = len(made.kernels)
    said = (
        f"{count} {'kernel' if count == 1 else 'kernels'} for {len(made.shapes)} shapes: "
        f"{kept} within {within:g} %, loss {percent_text(worst)} at worst, {percent_text(mean)} "
        f"on average; {percent_text(unseen)} and {percent_text(mean_unseen)} if each shape is "
        "picked for by the others alone"
    )
    return "\n".join([*lines, wrap(said, width())])


def _data(made: Dispatch, within: float) -> dict[str, Any]:
    return {
        "template": made.template.name,
        "args": made.args,
        "open_sizes": list(made.open_sizes),
        "target": str(made.target),
        "within": within / 100,
        "shortfall": made.shortfall,
        "kernels": [
            {"args": dict(k.args), "open_sizes": list(k.open_sizes), "values": dict(k.config)}
            for k in made.kernels
        ],
        "shapes": [
            {
                "sizes": dict(s.sizes),
                "best_s": s.best_s,
                "kernel": s.kernel,
                "loss": s.loss,
                "left_out_loss": s.left_out,
            }
            for s in made.shapes
        ],
    }
