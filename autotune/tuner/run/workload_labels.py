"""What the workloads of a run are called: by what sets each apart from the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from autotune.errors import UsageError
from autotune.task.task import Task


def check_distinct(tasks: Sequence[Task], source: str) -> None:
    """Raise UsageError if two workloads are one; `source` begins the message."""
    seen: dict[tuple[str, str], int] = {}
    for number, task in enumerate(tasks, 1):
        first = seen.setdefault((task.workload.key, task.target.recorded), number)
        if first != number:
            raise UsageError(
                f"{source}: workloads {first} and {number} are the same, {task.workload} "
                f"on {task.target}; a weight says how much one matters"
            )


def labels(tasks: Sequence[Task], given: Sequence[str | None], source: str) -> list[str]:
    """Return the label of each workload: its given name, or its template.

    Where that is not enough, the arguments that set it apart and then its target are added. A
    workload that is alone has no name.
    """
    if len(tasks) == 1:
        return [""]
    named = [name for name in given if name is not None]
    if twice := [name for name, count in Counter(named).items() if count > 1]:
        raise UsageError(f"{source}: two workloads have the name {twice[0]!r}")
    found = [name or task.workload.template for name, task in zip(given, tasks, strict=True)]
    telling = _telling(tasks)
    for detail in (
        lambda task: _arguments(task, telling[task.workload.template]),
        _constant,
        lambda task: f" on {task.target}",
    ):
        count = Counter(found)
        found = [
            label if name is not None or count[label] == 1 else label + detail(task)
            for label, name, task in zip(found, given, tasks, strict=True)
        ]
    return found


def _telling(tasks: Sequence[Task]) -> dict[str, list[str]]:
    """Return, by template, the arguments that distinguish its workloads."""
    alike: dict[str, list[Mapping[str, object]]] = {}
    for task in tasks:
        alike.setdefault(task.workload.template, []).append(task.args)
    found: dict[str, list[str]] = {}
    for template, several in alike.items():
        telling = found[template] = []
        for name in several[0]:
            if _count_distinct(several, [*telling, name]) > _count_distinct(several, telling):
                telling.append(name)
    return found


def _arguments(task: Task, telling: Sequence[str]) -> str:
    """Return the arguments that distinguish workloads of the same template: " m=512 n=64"."""
    return "".join(f" {name}={task.args[name]}" for name in telling if name in task.args)


def _constant(task: Task) -> str:
    """Return the constant inputs of a workload: " constant=[1]"."""
    return f" constant={list(task.constant)}" if task.constant else ""


def _count_distinct(alike: Sequence[Mapping[str, object]], names: Sequence[str]) -> int:
    """Return how many there are that differ in these arguments."""
    return len({tuple(args.get(name) for name in names) for args in alike})
