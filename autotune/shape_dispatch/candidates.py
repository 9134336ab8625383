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
from autotune.reuse import choices
from autotune.reuse.policy import ReusePolicy
from autotune.task.task import Task
from autotune.template import Template
from records import Record
from records.groups import RecordGroup, RecordSource

# What is best for a shape is not always best where sizes are open: so many other configurations of
# each shape are tried that take at most so many times as long there.
_NEXT_BEST = 3
_NEAR = 1.25

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
    `next_best`: those of other configurations that were nearly as good.
    `rival`: of a shape without records, a fast kernel, with which others are compared.
    """

    args: Mapping[str, Any]
    config: Mapping[str, Any] | None
    next_best: tuple[Mapping[str, Any], ...] = ()
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
        known = choices(task, source, 1 + _NEXT_BEST, policy.reuse, policy.any_device, notify)
        if known and known[0].record.args == dict(task.args):
            best, *others = known
            near = [one.config.values for one in others if _is_near(one.record, best.record)]
            found[task.workload.key] = TunedShape(task.args, best.config.values, tuple(near))
    return list(found.values())


def _is_near(record: Record, best: Record) -> bool:
    return record.cost_s <= _NEAR * best.cost_s


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
        # Other configurations may suit all sizes better, such as the default.
        made = [own, replace(own, config={})]
        made += [replace(own, config=dict(config)) for config in shape.next_best]
        if all_fixed:
            made.append(Candidate(dict(shape.args), tuple(names), {}))
        found.append(made)
    return found
