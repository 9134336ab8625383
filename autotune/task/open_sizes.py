"""Arguments of a template that are lists of sizes: only calls know them, measurements take each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from autotune.errors import UsageError
from autotune.ir.expr import Buffer, Const, KnobVar, SizeVar
from autotune.ir.ops import const
from autotune.ir.printer import expr_text
from autotune.ir.visitor import free_vars, substitute, walk_expr
from autotune.task.workload import Workload
from autotune.template import Template


def open_names(template: Template, args: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the arguments that only calls know, in order.

    UsageError if their lists differ in length.
    """
    names = tuple(name for name, value in args.items() if isinstance(value, list))
    lengths = {name: len(args[name]) for name in names}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise UsageError(
            f"template {template.name!r}: lists of open sizes go together and need the same "
            f"length; {told}"
        )
    return names


def likely(sizes: Sequence[int]) -> int:
    """Return the size that rules choose by: the geometric mean."""
    return max(1, round(geometric_mean(sizes)))


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean of some numbers; 0 if one is."""
    if min(values) <= 0:
        return 0.0
    return math.exp(sum(map(math.log, values)) / len(values))


def likely_shape(array: Buffer, sizes: Sequence[SizeVar], template: Template) -> tuple[int, ...]:
    """Return the shape of an argument where each open size is the likely one.

    `sizes`: the open sizes.
    `template`: whose argument it is.

    UsageError if it depends on knobs or on other sizes.
    """
    known = {v: const(v.likely, v.dtype) for v in sizes}
    shape = [substitute(extent, known) for extent in array.shape]
    for extent in shape:
        if not isinstance(extent, Const):
            why = "knobs" if any(isinstance(v, KnobVar) for v in walk_expr(extent)) else "te.var"
            raise UsageError(
                f"template {template.name!r}: the shape of argument {array.name!r} depends on "
                f"{why} (`{expr_text(extent)}`); a task needs arrays of fixed sizes"
            )
    return tuple(int(e.value) for e in shape if isinstance(e, Const))


def refuse_open_constant(constant: Buffer, workload: Workload) -> None:
    """Raise UsageError if an input that does not change has open sizes."""
    own = [v for extent in constant.shape for v in free_vars(extent)]
    names = sorted({v.name for v in own if isinstance(v, SizeVar)})
    if names:
        raise UsageError(
            f"input {constant.name!r} of {workload} does not change, so its sizes must be "
            f"numbers, not a list: {', '.join(names)}"
        )
