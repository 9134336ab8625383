"""`autotune.dispatch`: the fewest kernels for many shapes, and a function that picks one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from autotune.build_records import RecordsGiven, record_source
from autotune.errors import NoRecordError, UsageError
from autotune.operators.template_lookup import find_template, names_tile
from autotune.reuse.policy import ReusePolicy
from autotune.runtime.cpu.dispatch_rule import Rule, pick
from autotune.shape_dispatch.candidates import (
    TaskOf,
    TunedShape,
    is_of_open_sizes,
    open_sizes_of,
    tuned_shapes,
)
from autotune.shape_dispatch.comparison import BenchProcess
from autotune.shape_dispatch.dispatched_function import Dispatch, ShapeLoss
from autotune.shape_dispatch.kernel_losses import Kept, KernelLosses
from autotune.shape_dispatch.rule_learning import learn, left_out_losses, shapes_between
from autotune.shape_dispatch.selection import ROUNDING
from autotune.target import Target
from autotune.task.task import Task
from autotune.template import Template
from records import RecordWarning
from records.caller_warnings import warn
from records.groups import RecordSource

_log = logging.getLogger(__name__)


def dispatch(
    template: str,
    records: RecordsGiven,
    arguments: Mapping[str, Any] | None = None,
    target: str | Target = "llvm",
    *,
    within: float = 0.1,
    kernels: int | None = None,
    name: str | None = None,
    reuse: str = "exact",
    devices: str = "same",
) -> Dispatch:
    """Return a function for all sizes, made of the best configurations of many shapes.

    The best configuration of each shape that `records` know becomes a kernel for all sizes. All
    are timed on all shapes, beside the best kernel of each shape, on this machine: this takes
    minutes for some dozens of shapes. The smallest set is kept that keeps every shape within a
    share of its best.

    Parameters
    ----------
    template : str
        A template's name, or ``path/to/file.py:function``.
    records : path, RecordStore, or iterable of paths or of Record
        Where measurements of several shapes are.
    arguments : mapping, optional
        Arguments that all shapes share. Others have their defaults; those without a default may
        be anything, and those of them that differ are open.
    target : str or Target
        What to build for: a CPU.
    within : float
        Share that a shape may lose: 0.1 for 1.1 times the time of its best kernel.
    kernels : int, optional
        Largest number of kernels; with fewer than are needed, shapes lose more.
    name : str, optional
        Name of the function; the template's by default.
    reuse, devices
        As of `build`, for the records of each shape: "exact" or "kind".

    Raises
    ------
    NoRecordError
        If there are no records of two shapes that can be used.
    UsageError
        If an argument makes no sense, or the template does not work with open sizes.

    Examples
    --------
    >>> f = dispatch("matmul", "matmul.jsonl", kernels=6)
    >>> f(a, b, c)
    >>> f.save("matmul_any.so")
    """
    target = Target.of(target)
    policy = ReusePolicy(reuse=reuse, devices=devices)
    if names_tile(template):
        raise UsageError("dispatch: Tile functions are bound to sizes; give another template")
    found = find_template(template, target)
    source, _ = record_source(records, caller="dispatch")
    made = dispatch_template(
        found, template, source, dict(arguments or {}), target,
        within=within, most=kernels, policy=policy, name=name, notify=_tell,
    )  # fmt: skip
    if made.shortfall:
        _log.warning("%s", made.shortfall)
    return made


def dispatch_template(
    template: Template,
    reference: str,
    source: RecordSource | None,
    given: Mapping[str, Any],
    target: Target,
    *,
    within: float = 0.1,
    most: int | None = None,
    policy: ReusePolicy = ReusePolicy(),  # noqa: B008, it is frozen
    name: str | None = None,
    guarded: bool = False,
    notify: Callable[[str], object] = _log.warning,
) -> Dispatch:
    """Return the dispatch of a template; see `dispatch`.

    `reference`: how another process finds the template.
    `guarded`: as of `Task`.
    `notify`: called with a line for each kernel that is left out.
    """
    _check(target, within, most, policy, name)
    task_of = partial(Task, template, target=target, template_ref=reference, guarded=guarded)
    shapes = _shapes(template, task_of, given, source, policy, notify)
    names = open_sizes_of(template, shapes)
    sizes = [{n: shape.args[n] for n in names} for shape in shapes]
    between = shapes_between(sizes)
    more = [TunedShape({**shapes[0].args, **own}, None) for own, _ in between]
    with BenchProcess(reference, str(target)) as bench:
        times = KernelLosses(bench, names, notify)
        every = times.distinct_kernels(shapes)
        kept = times.keep(shapes, more if len(every) > 1 else [], every, within, most)
    if len(kept.kernels) < 2:
        between = []
    rule, rows = _learnt(sizes, between, kept, names, within)
    shortfall = _shortfall(rows, kept.least, within)
    return Dispatch(task_of(shapes[0].args), names, kept.kernels, rule, rows, name, shortfall)


def _shapes(
    template: Template,
    task_of: TaskOf,
    given: Mapping[str, Any],
    source: RecordSource | None,
    policy: ReusePolicy,
    notify: Callable[[str], object],
) -> list[TunedShape]:
    """Return the shapes of which records know a configuration; NoRecordError if they are < 2."""
    found = []
    if source is not None:
        found = tuned_shapes(template, task_of, given, source, policy, notify)
    if len(found) < 2:
        is_open = source is not None and any(map(is_of_open_sizes, source.groups(template.name)))
        instead = "`autotune run` makes some"
        if is_open:
            instead = "others are of one kernel for all sizes, which `autotune build` builds"
        raise NoRecordError(
            f"dispatch needs records of two shapes of {template.name} at least, there are "
            f"{len(found)} that can be used; {instead}"
        )
    return found


def _learnt(
    sizes: Sequence[Mapping[str, int]],
    between: Sequence[tuple[Mapping[str, int], tuple[int, int]]],
    kept: Kept,
    names: Sequence[str],
    within: float,
) -> tuple[Rule, list[ShapeLoss]]:
    """Return the rule, and what each shape loses by it.

    `sizes`: the open sizes of each shape with records.
    `between`: those of other shapes, and which two each is in the middle of.
    """
    fixed = [{n: 1 for n in names if n not in k.open_sizes} for k in kept.kernels]
    losses = kept.losses[: len(sizes) + len(between)]
    least = np.maximum(within, losses[: len(sizes)].min(axis=1)).tolist()
    limits = [*least, *[np.inf] * len(between)]
    every = [*sizes, *(own for own, _ in between)]
    rule = learn(every, losses, limits, fixed)
    parents = [*[()] * len(sizes), *(pair for _, pair in between)]
    left_out = left_out_losses(every, losses, limits, fixed, parents)
    rows = []
    for number, own in enumerate(sizes):
        kernel = pick(rule, own)
        loss = float(losses[number, kernel])
        rows.append(ShapeLoss(own, kept.best_s[number], kernel, loss, left_out[number]))
    return rule, rows


def _shortfall(rows: Sequence[ShapeLoss], least: Sequence[float], within: float) -> str:
    """Return a line that says which promise is not kept, and why; empty if it is.

    `least`: the least that each shape loses by any kernel, also those that are not kept.
    """
    over = [n for n, row in enumerate(rows) if row.loss > within + ROUNDING]
    if not over:
        return ""
    worst = max(over, key=lambda n: rows[n].loss)
    sizes = ", ".join(f"{name}={size}" for name, size in rows[worst].sizes.items())
    helped = sum(least[n] < rows[n].loss - ROUNDING for n in over)
    why = f"more kernels would help {helped} of them" if helped else "no kernel does better"
    return (
        f"{len(over)} of {len(rows)} shapes lose more than {100 * within:g} %, at worst "
        f"{100 * rows[worst].loss:.1f} % ({sizes}); {why}"
    )


def _check(
    target: Target, within: float, most: int | None, policy: ReusePolicy, name: str | None
) -> None:
    if target.gpu is not None or not target.on_cpu:
        raise UsageError(f"dispatch is for CPUs: the target is '{target}'")
    if isinstance(within, bool) or not isinstance(within, int | float) or not 0 <= within < 100:
        raise UsageError(f"dispatch: within must be a share such as 0.1, got {within!r}")
    if most is not None and (type(most) is not int or most < 1):
        raise UsageError(f"dispatch: kernels must be a whole number >= 1, got {most!r}")
    if policy.reuse not in ("exact", "kind"):
        raise UsageError(f"dispatch: reuse must be exact or kind, got {policy.reuse!r}")
    if name is not None and not name.isidentifier():
        raise UsageError(f"dispatch: name must be letters, digits and _, got {name!r}")


def _tell(why: str) -> None:
    _log.warning(why)
    warn(why, RecordWarning)
