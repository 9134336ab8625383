"""Configurations that were best for a shape each, as kernels for all sizes.

A kernel for all sizes is made by the same rules as the one for a single shape: what the rules
choose suits the shape, and what they write works for any. Only sizes that are 1 may stay fixed: a
product of a vector is computed in another way than one of a matrix, and a test at call time is
enough to know which it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from autotune.errors import UsageError
from autotune.reuse import choose
from autotune.reuse.policy import ReusePolicy
from autotune.task.task import Task
from autotune.template import Template
from records.groups import RecordGroup, RecordSource

# Makes the task of a template from arguments.
TaskOf = Callable[[Mapping[str, Any]], Task]


@dataclass(frozen=True)
class Candidate:
    """A kernel for all sizes, before it is compiled.

    `args`: arguments that it was made for.
    `open_sizes`: those that only calls know; the others are fixed.
    `config`: values of the knobs.
    """

    args: Mapping[str, Any]
    open_sizes: tuple[str, ...]
    config: Mapping[str, Any]

    def task(self, task_of: TaskOf) -> Task:
        """Return the task that makes its code; open sizes are given as lists of what is likely."""
        return task_of({**self.args, **{name: [self.args[name]] for name in self.open_sizes}})


@dataclass(frozen=True)
class TunedShape:
    """A shape, with what records know of it.

    `args`: all arguments of the template.
    `config`: values of the knobs that were best; None for a shape without records.
    `rival`: of a shape without records, a fast kernel, with which others are compared.
    """

    args: Mapping[str, Any]
    config: Mapping[str, Any] | None
    rival: Candidate | None = None


def tuned_shapes(
    template: Template,
    task_of: TaskOf,
    given: Mapping[str, Any],
    source: RecordSource,
    policy: ReusePolicy,
    notify: Callable[[str], object],
) -> list[TunedShape]:
    """Return the shapes of which records know a configuration, in order of first appearance.

    `task_of`: makes tasks of the template.
    `given`: arguments that all shapes share; those that have a default and are not given have it.

    UsageError if an argument is unknown or of the wrong type.
    """
    required = [p.name for p in template.parameters if p.required]
    defaults = {p.name: p.default for p in template.parameters if not p.required}
    wanted = {**defaults, **given}
    _ = template.bind({**dict.fromkeys(required, 1), **wanted})
    found: dict[str, TunedShape] = {}
    for group in source.groups(template.name):
        shared = all(group.args.get(name) == value for name, value in wanted.items())
        if is_of_open_sizes(group):
            continue
        if group.constant or group.args.keys() != {*required, *defaults} or not shared:
            continue
        task = task_of(group.args)
        if task.workload.key in found:
            continue
        choice = choose(task, source, policy.reuse, policy.any_device, notify)
        if choice is not None and choice.record.args == dict(task.args):
            shape = TunedShape(task.args, choice.config.values)
            found[task.workload.key] = shape
    return list(found.values())


def is_of_open_sizes(group: RecordGroup) -> bool:
    """Whether records are of one kernel for all sizes, tuned for a list of them."""
    return any(isinstance(value, list) for value in group.args.values())


def open_sizes_of(template: Template, shapes: Sequence[TunedShape]) -> tuple[str, ...]:
    """Return the arguments in which shapes differ.

    UsageError if one of them is no size.
    """
    first = shapes[0].args
    names = [name for name in first if any(s.args[name] != first[name] for s in shapes)]
    for name in names:
        if any(type(s.args[name]) is not int or s.args[name] < 1 for s in shapes):
            raise UsageError(
                f"the records of {template.name} differ in {name}, which is no size: say which to "
                f"take, as in --set {name}={first[name]}"
            )
    return tuple(names)


def candidates_of(shapes: Sequence[TunedShape], names: Sequence[str]) -> list[list[Candidate]]:
    """Return for each shape kernels for all sizes by its configuration.

    Sizes of 1 stay fixed. If every shape has such a size, each also has a kernel without any.
    """
    found = []
    all_fixed = all(any(shape.args[n] == 1 for n in names) for shape in shapes)
    for shape in shapes:
        long = tuple(n for n in names if shape.args[n] > 1)
        own = Candidate(dict(shape.args), long, dict(shape.config or {}))
        made = [own, replace(own, config={})]  # the default may suit all sizes better
        if all_fixed:
            made.append(Candidate(dict(shape.args), tuple(names), {}))
        found.append(made)
    return found
