"""Requirements of schedules on knob values, as conditions over knobs.

With plain numbers the primitives check these at once; with symbols the checks become conditions.
"""

from __future__ import annotations

from collections.abc import Iterator

from autotune.ir.axes import IterVar
from autotune.ir.expr import Const, Expr
from autotune.ir.ops import binary
from autotune.lowering.target_limits import Rule, may_fail
from autotune.schedule.schedule import Schedule
from autotune.te.scan import ScanOp
from autotune.te.tensor import ComputeOp


def schedule_rules(schedule: Schedule) -> list[Rule]:
    """Return the conditions, with messages, that make sizes of a schedule sensible."""
    rules: list[Rule] = []
    for stage in schedule.stages:
        rules += ((binary(">=", size, least), message) for size, least, message in stage.demands)
        for name, extent in _extents(stage.op):
            message = f"{name} of {stage.name!r} must not be negative"
            rules.append((binary(">=", extent, 0), message))
    return [rule for rule in rules if not isinstance(rule[0], Const) and may_fail(rule[0])]


def _extents(op: object) -> Iterator[tuple[str, Expr]]:
    if isinstance(op, ComputeOp):
        axes: list[IterVar] = [*op.axis, *op.reduce_axis]
        for axis in axes:
            assert axis.dom is not None
            yield f"the length of axis {axis.name!r}", axis.dom.extent
    elif isinstance(op, ScanOp) and op.scan_axis.dom is not None:
        yield "the number of steps after the first", op.scan_axis.dom.extent
