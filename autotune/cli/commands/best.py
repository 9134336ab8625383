"""`autotune best`: the configuration of a workload that logs have shown to be best."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from typing import Annotated

import typer

from autotune.cli.options import shared_options as shared
from autotune.cli.options.multi_value_options import Command
from autotune.cli.options.task_arguments import logs_of, make_task
from autotune.cli.terminal.output import NOTHING_FOUND, StopError, print_line, width
from autotune.report.ratio import Ratio
from autotune.report.text_tables import wrap
from autotune.report.units import Work, time_text
from autotune.reuse import choose, why_nothing
from autotune.reuse.policy import ReusePolicy

# Note on a result without a final comparison: it is the fastest trial.
BY_TRIALS = "no final comparison: the fastest of its trials"


app = shared.command_app()


@app.command(cls=Command)
def best(
    template: shared.TemplateName,
    logs: Annotated[
        list[str], typer.Option("--log", metavar="FILE ...", help="Logs, or folders of logs.")
    ],
    settings: shared.Set = None,
    shapes: shared.Shape = None,
    constant: shared.Constant = None,
    target: shared.TargetText = "llvm",
    reuse: shared.Reuse = "exact",
    any_device: shared.AnyDevice = False,
    as_json: shared.Json = False,
) -> None:
    """Print the configuration that logs have shown to be best."""
    with redirect_stdout(sys.stderr):  # a template's output is not the result
        task = make_task(template, settings, shapes, target, constant=constant)
        policy = ReusePolicy(reuse=reuse, devices="any" if any_device else "same")
        records = logs_of(logs)
        choice = choose(task, records, policy.reuse, policy.any_device)
        if choice is None:
            _ = task.space  # a template may refuse its arguments or constant inputs
    if choice is None:
        raise StopError(
            NOTHING_FOUND,
            f"{' and '.join(logs)} {'holds' if len(logs) == 1 else 'hold'} no valid record of "
            f"{task.workload} on {task.target} ({why_nothing(task, records)}); "
            "`autotune run` makes some, `autotune records summary` lists those there are",
        )
    record, config = choice.record, choice.config
    work = Work.of(task)
    if as_json:
        found = {
            "workload": task.workload.to_json(),
            "target": str(task.target),
            "config": config.to_json(),
            "grade": str(choice.grade),
            "cost_s": record.cost_s,
            "gflops": work.gflops(record.cost_s),
            "record": record.to_json(),
        }
        print_line(json.dumps(found))
        return
    print_line(wrap(f"{task.workload} on {task.target}", width(), "    "))
    said = [time_text(record.cost_s), work.speed_text(record.cost_s), f"config {config.index}"]
    if ratio := Ratio.of_final(record):
        said.insert(2, ratio.sentence("the default"))
    print_line(wrap(f"  {', '.join(said)}", width(), "    "))
    print_line(wrap(f"  {config.describe()}", width(), "    "))
    if choice.text:
        print_line(wrap(f"  {choice.text}", width(), "    "))
    if record.is_trial:
        print_line(wrap(f"  {BY_TRIALS}", width(), "    "))
