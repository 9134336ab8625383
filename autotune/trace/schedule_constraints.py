"""Requirements of schedules on knob values, as conditions over knobs.

With plain numbers the primitives check these at once; with symbols the checks become conditions.
"""

from __future__ import annotations

from collections.abc import Iterator

from autotune.ir.algebra.intervals import Intervals
from autotune.ir.axes import IterVar
from autotune.ir.expr import Const, Expr, KnobVar, Var
from autotune.ir.ops import binary
from autotune.ir.visitor import walk_expr
from autotune.lowering.target_limits import Rule
from autotune.schedule.schedule import Schedule
from autotune.te.scan import ScanOp
from autotune.te.tensor import ComputeOp


def schedule_rules(schedule: Schedule) -> list[Rule]:
    """Return the conditions, with messages, that make sizes of a schedule sensible."""
    rules = []
    for stage in schedule.stages:
        for size, least, message in stage.demands:
            if _may_be_below(size, least):
                rules.append((binary(">=", size, least), message))
        for name, extent in _extents(stage.op):
            if _may_be_below(extent, 0):
                message = f"{name} of {stage.name!r} must not be negative"
                rules.append((binary(">=", extent, 0), message))
    return rules


def _extents(op: object) -> Iterator[tuple[str, Expr]]:
    if isinstance(op, ComputeOp):
        axes: list[IterVar] = [*op.axis, *op.reduce_axis]
        for axis in axes:
            assert axis.dom is not None
            yield f"the length of axis {axis.name!r}", axis.dom.extent
    elif isinstance(op, ScanOp) and op.scan_axis.dom is not None:
        yield "the number of steps after the first", op.scan_axis.dom.extent


def _may_be_below(size: Expr, least: int) -> bool:
    """Whether knobs can make a size smaller than `least`."""
    variables = [node for node in walk_expr(size) if isinstance(node, Var)]
    if isinstance(size, Const) or not all(isinstance(v, KnobVar) for v in variables):
        return False
    return Intervals().bounds(size)[0] < least
