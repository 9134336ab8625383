"""`autotune show`: a template's search space, or steps, loops or code of one configuration."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

from autotune.cli.output import say, width
from autotune.cli.tasks import make_task
from autotune.errors import UsageError

if TYPE_CHECKING:
    from autotune.task import Task
    from search_spaces import Space


def show_command(
    template: str,
    settings: Sequence[str],
    target: str,
    index: int | None,
    views: Sequence[str],
) -> None:
    """Print one view: "space" (the default without an index), "ir" (with one), "source" or "steps".

    Raises
    ------
    UsageError, SpaceError
        If an argument is not what it should be, or the configuration is not allowed.
    """
    if len(views) > 1:
        asked = " and ".join(f"--{view}" for view in views)
        raise UsageError(f"{asked} cannot be asked for at once: choose one")
    view = views[0] if views else ("space" if index is None else "ir")
    with redirect_stdout(sys.stderr):  # what a template prints is not what was asked for
        task = make_task(template, settings, target)
        text = _space(task, index) if view == "space" else _code(task, index, view)
    say(text)


def _code(task: Task, index: int | None, view: str) -> str:
    """Return the schedule, the loops or the generated code of a configuration."""
    chosen = task.default_index if index is None else index
    _require_allowed(task, chosen)
    if view == "steps":
        return _steps(task, chosen)
    if view == "ir":
        from autotune.lowering.finalise import listing

        refused = task.final(chosen).attrs.get("not_vectorized", ())
        notes = [f"// {loop} is not vectorized: {reason}" for loop, reason in refused]
        return "\n".join([str(listing(task.function(chosen))).rstrip(), *notes])
    from autotune.builder import BuiltFunction

    return BuiltFunction(task.final(chosen), task.target).source.rstrip()


def _steps(task: Task, index: int) -> str:
    """Return the schedule of a configuration, one numbered step per line."""
    from autotune.schedule.steps import Step

    steps = task.steps_of(index)
    if steps is None:
        raise UsageError(f"{task.workload} fails in configuration {index}: it has no schedule")
    return "\n".join(f"{number}. {Step.from_json(step)}" for number, step in enumerate(steps, 1))


def _require_allowed(task: Task, index: int) -> None:
    """Raise UsageError if a configuration breaks a rule, naming it; SpaceError if there is none."""
    broken = [name for name, count in task.space.rejections([index]).items() if count]
    if broken:
        raise UsageError(
            f"{task.workload} does not allow configuration {index}: {broken[0]!r} rejects it; "
            f"the nearest one allowed is {task.space.nearest_feasible(index)}"
        )


def _space(task: Task, index: int | None) -> str:
    """Return knobs, constraints with what they reject, and a configuration."""
    from autotune.report.spaces import space_text

    label = "default config" if index is None else "config"
    chosen = _default_or_none(task.space) if index is None else index
    return space_text(f"{task.workload} on {task.target}", task.space, chosen, label, width())


def _default_or_none(space: Space) -> int | None:
    from search_spaces import SpaceError

    try:
        return space.default_index
    except SpaceError:  # nothing is allowed, and the counts of rejections say why
        return None
