"""From the words of a command line to a task: TEMPLATE, --set and --target."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from autotune.cli.options.input_files import check_readable
from autotune.cli.options.tile_arguments import tile_arguments
from autotune.errors import UsageError

if TYPE_CHECKING:
    from autotune.report.units import Work
    from autotune.target import Target
    from autotune.task.task import Task
    from autotune.template import Template
    from records import Record


_MIN_IMPORT_S = 30.0
"""Seconds that the file of a template gets to be imported, with all that it imports."""

_MIN_TRACE_S = 1.0
"""Least seconds for a template, also if candidates get less: all candidates depend on it."""


_EXAMPLES = {
    "--set": "NAME=VALUE, such as --set n=512",
    "--shape": "NAME=SIZE,SIZE, such as --shape X=4,5",
    "--rank": "NAME=RANK, such as --rank X=2",
}


def parse_settings(settings: Sequence[str], option: str = "--set") -> dict[str, str]:
    """Read NAME=VALUE words of an option; spaces around the name and the value do not count.

    Raises
    ------
    UsageError
        If a word is not of that form, or a name is given twice.
    """
    values: dict[str, str] = {}
    for setting in settings:
        name, equals, value = (part.strip() for part in setting.partition("="))
        if not name or not equals or not value:
            example = _EXAMPLES[option]
            raise UsageError(f"{option} {setting!r}: expected {example}")
        if name in values:
            raise UsageError(f"{option} gives {name} twice: {values[name]} and {value}")
        values[name] = value
    return values


def make_task(
    reference: str,
    settings: Sequence[str],
    shapes: Sequence[str],
    target: str,
    timeout_s: float = 10.0,
) -> Task:
    """Return the task that TEMPLATE, --set, --shape and --target name; see `task_of`."""
    given = parse_settings(settings), parse_settings(shapes, "--shape")
    return task_of(reference, *given, target, timeout_s)


def task_of(
    reference: str,
    values: Mapping[str, str],
    shapes: Mapping[str, str],
    target: str,
    timeout_s: float = 10.0,
) -> Task:
    """Return the task of a template.

    Parameters
    ----------
    reference : str
        A template's name, ``path/to/file.py:function`` or ``path/to/file.tile``.
    values : mapping of str to str
        Its arguments as texts.
    shapes : mapping of str to str
        Shapes of the inputs of a Tile function that have no dimensions in the header.
    target : str
    timeout_s : float
        Seconds that a template which is not our own may take, each time it is run here.

    Raises
    ------
    UsageError
        If the target, the template or an argument is not what it should be.
    """
    from autotune.target import Target

    parsed = Target.parse(target)
    template = template_of(reference, parsed, timeout_s)
    return task_with(template, reference, values, shapes, parsed, timeout_s)


def template_of(reference: str, target: Target, timeout_s: float = 10.0) -> Template:
    """Return a template that the user names; see `task_of`.

    Raises
    ------
    UsageError
        If there is none, or its file cannot be loaded.
    """
    from autotune.operators.template_lookup import find_template
    from autotune.trace.user_code import run_isolated

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
) -> Task:
    """Return the task of a template that was found by `reference`; see `task_of`.

    Raises
    ------
    UsageError
        If an argument is not what it should be.
    """
    from autotune.operators.template_lookup import BUILTIN, names_tile
    from autotune.task.task import Task

    tile = names_tile(reference)
    if tile:
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
    )


def closest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that `word` looks like, if any does."""
    words = list(known)
    same = (w for w in words if w.lower() == word.lower())
    return next(same, next(iter(difflib.get_close_matches(word, words, n=1)), None))


def load_log(path: str) -> list[Record]:
    """Return the records of a log.

    Raises
    ------
    UsageError, RecordError
        If there is no such file, or it is no log.
    """
    from records import RecordStore
    from records.formats import load_own

    return load_own(RecordStore(check_readable(path)), must_exist=True)


def load_logs(paths: Sequence[str]) -> list[Record]:
    """Return the records of several logs, one log after the other; see `load_log`."""
    return [record for path in dict.fromkeys(paths) for record in load_log(path)]


def work_of(task: Task) -> Work:
    """Return what one run of the task's kernel amounts to.

    Raises
    ------
    UsageError
        If the template's count of operations fails.
    """
    from autotune.report.units import Work

    return Work(task.flops, task.bytes)
