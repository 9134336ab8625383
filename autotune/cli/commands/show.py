"""`autotune show`: a template's search space, or steps, loops or code of one configuration."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from typing import Annotated

import typer

from autotune.builder import BuiltFunction
from autotune.cli.options import shared_options as shared
from autotune.cli.options.multi_value_options import Command
from autotune.cli.options.task_arguments import make_task
from autotune.cli.terminal.output import print_line, width
from autotune.errors import UsageError
from autotune.ir.visitor import is_raw
from autotune.lowering.finalise import listing
from autotune.report.space_text import space_json, space_text
from autotune.report.text_tables import wrap_clauses
from autotune.schedule.steps import Step
from autotune.task.task import Task
from search_spaces import SpaceError

app = shared.command_app()


@app.command(cls=Command)
def show(
    template: shared.TemplateName,
    settings: shared.Set = None,
    shapes: shared.Shape = None,
    constant: shared.Constant = None,
    target: shared.TargetText = "llvm",
    config: Annotated[
        int | None,
        typer.Option(min=0, metavar="INDEX", help="A configuration.  [the default one]"),
    ] = None,
    space: Annotated[
        bool, typer.Option("--space", help="Knobs, constraints and their rejections.  [default]")
    ] = False,
    ir: Annotated[bool, typer.Option("--ir", help="Loops of the configuration.")] = False,
    source: Annotated[bool, typer.Option("--source", help="Its generated code.")] = False,
    steps: Annotated[bool, typer.Option("--steps", help="Its schedule, step by step.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The space as JSON.")] = False,
) -> None:
    """Print a search space, or a configuration's schedule, loops or code."""
    asked = {"space": space, "ir": ir, "source": source, "steps": steps}
    view = shared.chosen_view(asked, "space" if config is None or as_json else "ir")
    if as_json and view != "space":
        raise UsageError(f"--{view} has no output as JSON: ask for --space --json")
    with redirect_stdout(sys.stderr):  # a template's output is not the result
        task = make_task(template, settings, shapes, target, constant=constant)
        text = _space(task, config, as_json) if view == "space" else _code(task, config, view)
    print_line(text)


def _code(task: Task, index: int | None, view: str) -> str:
    """Return the schedule, the loops or the generated code of a configuration."""
    chosen = task.default_index if index is None else index
    _require_allowed(task, chosen)
    if view == "steps":
        return _steps(task, chosen)
    if view == "ir":
        refused = task.final(chosen).info.not_vectorized
        notes = [f"// {loop} is not vectorized: {reason}" for loop, reason in refused]
        return "\n".join([str(listing(task.function(chosen))).rstrip(), *notes])
    values = task.space.config(chosen).values
    called = task.callable_of(values)
    if called is not None:
        return called.source
    functions = task.prepared_of(values).functions
    sources = [BuiltFunction(each, task.target).source.rstrip() for each in reversed(functions)]
    return "\n\n".join(sources)  # the function that prepares constants, then the one that is called


def _steps(task: Task, index: int) -> str:
    """Return the schedule of a configuration, one numbered step per line."""
    steps = task.steps_of(index)
    if steps is None:
        why = f"fails in configuration {index}"
        if is_raw(task.function(index)):
            why = "gives a kernel that is no tensor expressions"
        raise UsageError(f"{task.workload} {why}: it has no schedule")
    return "\n".join(f"{number}. {Step.from_json(step)}" for number, step in enumerate(steps, 1))


def _require_allowed(task: Task, index: int) -> None:
    """Raise UsageError if a configuration breaks a rule, naming it; SpaceError if there is none."""
    broken = task.refusal(index)
    if broken:
        nearest = task.nearest_legal(index)
        remedy = "none is" if nearest is None else f"the nearest one allowed is {nearest}"
        raise UsageError(
            f"{task.workload} does not allow configuration {index}: {broken!r} rejects it; {remedy}"
        )


def _space(task: Task, index: int | None, as_json: bool) -> str:
    """Return knobs, rules with numbers of rejections, and a configuration or why there is none."""
    chosen, empty = index, ""
    try:
        chosen = task.default_index if index is None else index
    except SpaceError as error:
        empty = str(error)
    counts = task.tally()
    if as_json:
        found = {
            "workload": task.workload.to_json(),
            "target": str(task.target),
            "untraceable": task.untraceable or None,
            "explored": task.explored,
            **space_json(task.space, counts, chosen),
            "empty": empty or None,
        }
        return json.dumps(found)
    label = "default config" if index is None else "config"
    title = f"{task.workload} on {task.target}"
    text = space_text(title, task.space, counts, chosen, label, width())
    notes = [_unexplored(task), empty]
    return "\n\n".join([text, *(wrap_clauses(note, width()) for note in notes if note)])


def _unexplored(task: Task) -> str:
    """Return a note on rejections that the counts leave out, if there are any."""
    if task.explored or task.untraceable:
        return ""
    return (
        f"{len(task.structures)} ways through the template are traced; what others refuse is not "
        "counted here, and is refused when it is proposed"
    )
