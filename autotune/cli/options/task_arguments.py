"""From the words of a command line to a task: TEMPLATE, --set and --target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from autotune.cli.options.input_files import check_logs
from autotune.cli.options.shared_options import parse_settings
from autotune.errors import UsageError
from autotune.operators.template_lookup import BUILTIN, find_template, names_tile
from autotune.system.words import closest
from autotune.target import Target
from autotune.task.task import Task
from autotune.template import Template
from autotune.trace.isolate_user_code import run_isolated
from records.groups import RecordSource
from records.log_set import open_logs

# Seconds that the file of a template gets to be imported, with all that it imports.
_MIN_IMPORT_S = 30.0

# Least seconds for a template, also if candidates get less: all candidates depend on it.
_MIN_TRACE_S = 1.0


def make_task(
    reference: str,
    settings: Sequence[str] | None,
    shapes: Sequence[str] | None,
    target: str,
    constant: Sequence[int] | None = None,
) -> Task:
    """Return the task that TEMPLATE and the options that describe it name; see `task_with`."""
    given = parse_settings(settings), parse_settings(shapes, "--shape")
    parsed = Target.parse(target)
    template = template_of(reference, parsed)
    return task_with(template, reference, *given, parsed, constant=constant or ())


def template_of(reference: str, target: Target, timeout_s: float = 10.0) -> Template:
    """Return a template that the user names; see `task_with`.

    UsageError if there is none, or its file cannot be loaded.
    """
    limit = max(_MIN_IMPORT_S, timeout_s)
    # Importing it runs it.
    return run_isolated(partial(find_template, reference, target, import_timeout_s=limit))


def task_with(
    template: Template,
    reference: str,
    values: Mapping[str, str],
    shapes: Mapping[str, str],
    target: Target,
    timeout_s: float = 10.0,
    constant: Sequence[int] = (),
) -> Task:
    """Return the task of a template.

    reference: what named it: a name, ``path/to/file.py:function`` or ``path/to/file.tile``.
    values: its arguments as texts.
    shapes: shapes of the inputs of a Tile function that have no dimensions in the header.
    timeout_s: seconds that a template which is not our own may take, each time it is run here.
    constant: positions of the inputs that do not change.

    UsageError if an argument is not what it should be.
    """
    tile = names_tile(reference)
    if tile:
        from autotune.cli.options.tile_arguments import tile_arguments  # parser and isl

        values = tile_arguments(template, reference, values, shapes)
    elif shapes:
        raise UsageError(f"--shape is for Tile functions: {reference} takes arguments by --set")
    names = [parameter.name for parameter in template.parameters]
    for name in values:
        if name not in names and (meant := closest(name, names)):
            raise UsageError(
                f"template {template.name!r} has no argument {name!r}: did you mean {meant!r}?"
            )
    own = tile or (reference, template.target) in BUILTIN
    return Task(
        template,
        template.parse_args(values),
        target,
        reference,
        guarded=not own,
        trace_timeout_s=max(_MIN_TRACE_S, timeout_s),
        constant=constant,
    )


def logs_of(paths: Sequence[str]) -> RecordSource:
    """Return the records of several logs, compressed or not, and of folders of logs.

    UsageError or RecordError if one of them is not there, or is no log.
    """
    return open_logs(check_logs(paths))
