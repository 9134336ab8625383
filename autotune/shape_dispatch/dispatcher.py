"""`autotune.dispatch`: the fewest kernels for many shapes, and a function that picks one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np

from autotune.builder import RecordsGiven, record_source
from autotune.errors import NoRecordError, UsageError
from autotune.operators.template_lookup import find_template, names_tile
from autotune.reuse.policy import ReusePolicy
from autotune.runtime.cpu.kernel_choice import Rule, pick
from autotune.runtime.cpu.llvm_compiler import ChoiceFunction, compile_function
from autotune.runtime.signature import Signature
from autotune.shape_dispatch.candidates import (
    Candidate,
    TunedShape,
    candidates_of,
    open_sizes_of,
    tuned_shapes,
)
from autotune.shape_dispatch.comparison import BenchProcess
from autotune.shape_dispatch.decision_tree import learn, left_out_losses, shapes_between
from autotune.shape_dispatch.kernel_losses import (
    FINAL_S,
    SURVEY_S,
    Progress,
    distinct_kernels,
    measure_losses,
    usable_kernels,
)
from autotune.shape_dispatch.selection import select
from autotune.target import Target
from autotune.template import Template
from records import RecordWarning
from records.caller_warnings import warn
from records.groups import RecordSource

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ShapeLoss:
    """What one shape loses by the kernel that is picked for it.

    `sizes`: its open sizes.
    `best_s`: seconds of the best kernel for this shape alone, measured beside the others.
    `kernel`: the kernel that is picked, by its number.
    `loss`: 0.1 if it takes 1.1 times as long as the best.
    `left_out`: the same for the kernel that is picked if this shape is not known beforehand.
    """

    sizes: Mapping[str, int]
    best_s: float
    kernel: int
    loss: float
    left_out: float


class Dispatch:
    """A function for many shapes: a few kernels for all sizes, and the rule that picks one.

    Nothing is compiled in this process, nor written, before it is called or saved.

    Attributes
    ----------
    template : Template
    target : Target
    open_sizes : tuple of str
        The arguments that calls know.
    args : dict
        The others.
    kernels : tuple of Candidate
        What the kernels are made by.
    rule : Rule
        Which of them is picked.
    shapes : list of ShapeLoss
        What each shape loses.
    """

    def __init__(
        self,
        template: Template,
        target: Target,
        open_sizes: Sequence[str],
        kernels: Sequence[Candidate],
        rule: Rule,
        shapes: Sequence[ShapeLoss],
        name: str | None = None,
    ) -> None:
        self.template = template
        self.target = target
        self.open_sizes = tuple(open_sizes)
        self.kernels = tuple(kernels)
        self.rule = rule
        self.shapes = list(shapes)
        self.name = name or template.name
        first = kernels[0].args
        self.args = {n: value for n, value in first.items() if n not in open_sizes}

    def pick(self, **sizes: int) -> int:
        """Return the number of the kernel for some sizes, by their names."""
        return pick(self.rule, sizes)

    @cached_property
    def function(self) -> ChoiceFunction:
        """The compiled kernels and rule as one function."""
        made = []
        for number, kernel in enumerate(self.kernels):
            function = kernel.task(self.template, self.target).prepared_of(kernel.config).main
            named = replace(function, name=f"{self.name}_{number}")
            made.append(compile_function(named, self.target))
        whole = next(
            kernel.signature
            for kernel, by in zip(made, self.kernels, strict=True)
            if by.open_sizes == self.open_sizes
        )
        signature = Signature(self.name, whole.parameters, whole.sizes, whole.at_least)
        return ChoiceFunction(signature, self.rule, made)

    @property
    def source(self) -> str:
        """Text that is compiled."""
        return self.function.source

    def __call__(self, *arrays: Any) -> None:
        """Run on arrays of the CPU, inputs then outputs, C-contiguous and of any sizes that fit.

        Raises
        ------
        ArgumentError
            As of a built function.
        """
        self.function(*arrays)

    def bind(self, *arrays: Any) -> Callable[[], None]:
        """Check the arrays once and return a call without arguments, for calls in a row."""
        return self.function.bind(*arrays)

    def save(self, path: str | PathLike[str]) -> None:
        """Write a shared library and its C header, as `BuiltFunction.save` does."""
        from autotune.runtime.save_library import save

        workload = {
            "template": self.template.name,
            "args": self.args,
            "open_sizes": list(self.open_sizes),
        }
        save(self.function, path, workload=workload)

    def __repr__(self) -> str:
        sizes = ", ".join(self.open_sizes)
        return f"<dispatch of {self.template.name} over {sizes}: {len(self.kernels)} kernels>"


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
    source, _ = record_source(records)
    given = dict(arguments or {})
    return dispatch_template(
        found, template, source, given, target, within, kernels, policy, name=name, notify=_tell
    )


def dispatch_template(
    template: Template,
    reference: str,
    source: RecordSource | None,
    given: Mapping[str, Any],
    target: Target,
    within: float = 0.1,
    most: int | None = None,
    policy: ReusePolicy = ReusePolicy(),  # noqa: B008, it is frozen
    name: str | None = None,
    notify: Progress = _log.warning,
    progress: Progress = _log.info,
) -> Dispatch:
    """Return the dispatch of a template; see `dispatch`.

    `reference`: how another process finds the template.
    `notify`: told what is left out, a line each.
    `progress`: told what is being done.
    """
    _check(target, within, most, policy, name)
    shapes = [] if source is None else tuned_shapes(template, given, target, source, policy, notify)
    if len(shapes) < 2:
        raise NoRecordError(
            f"dispatch needs records of two shapes of {template.name} at least, there are "
            f"{len(shapes)} that can be used; `autotune run` makes some"
        )
    names = open_sizes_of(template, shapes)
    with BenchProcess(reference, str(target)) as bench:
        kernels = distinct_kernels(bench, shapes, candidates_of(shapes, names), notify, progress)
        losses, best = measure_losses(bench, shapes, kernels, SURVEY_S, notify, progress, names)
        losses, kernels = usable_kernels(losses, kernels, shapes, names)
        everywhere = [n for n, k in enumerate(kernels) if k.open_sizes == names]
        chosen = select(losses, within, most, everywhere).kernels
        kernels = [kernels[n] for n in chosen]
        progress(f"{len(kernels)} kernels are kept, and timed again")
        losses, best = measure_losses(bench, shapes, kernels, FINAL_S, notify, progress, names)
        sizes = [{n: shape.args[n] for n in names} for shape in shapes]
        middle = shapes_between(sizes) if len(kernels) > 1 else []
        between = [TunedShape({**shapes[0].args, **own}, None) for own, _ in middle]
        more, _ = measure_losses(bench, between, kernels, SURVEY_S, notify, progress, names)
    fixed = [{n: 1 for n in names if n not in k.open_sizes} for k in kernels]
    limits = [*np.maximum(within, losses.min(axis=1)).tolist(), *[np.inf] * len(middle)]
    known = [*sizes, *(own for own, _ in middle)]
    every = np.concatenate([losses, more])
    rule = learn(known, every, limits, fixed)
    parents = [*[()] * len(sizes), *(pair for _, pair in middle)]
    left_out = left_out_losses(known, every, limits, fixed, parents)
    rows = []
    for number, own in enumerate(sizes):
        kernel = pick(rule, own)
        loss = float(losses[number, kernel])
        rows.append(ShapeLoss(own, best[number], kernel, loss, left_out[number]))
    return Dispatch(template, target, names, kernels, rule, rows, name)


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
