"""What schedules and targets demand of knob values, as conditions over knobs.

With plain numbers the primitives check these at once; with symbols the checks become conditions.
"""

from __future__ import annotations

from collections.abc import Iterator

from autotune.errors import LoweringError
from autotune.ir.expr import Const, Expr, Knob, Var
from autotune.ir.intervals import interval
from autotune.ir.itervar import IterVar
from autotune.ir.ops import binary, const
from autotune.ir.stmt import For, Function, LoopKind, Stmt
from autotune.ir.visitor import child_stmts, walk_expr
from autotune.schedule.schedule import Schedule
from autotune.target import Target
from autotune.te.tensor import ComputeOp

Rule = tuple[Expr, str]


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


def _may_be_below(size: Expr, least: int) -> bool:
    """Whether knobs can make a size smaller than `least`."""
    variables = [node for node in walk_expr(size) if isinstance(node, Var)]
    if isinstance(size, Const) or not all(isinstance(v, Knob) for v in variables):
        return False
    return interval(size)[0] < least


def target_rules(function: Function, target: Target) -> list[Rule]:
    """Return the conditions, with messages, under which `target` can run `function`.

    Raises
    ------
    LoweringError
        If no knob value helps, such as GPU threads on a CPU target.
    """
    blocks = {id(b): b for b in _threads(function.body, {}) if b is not None}
    if target.kind == "llvm":
        if blocks:
            raise LoweringError(
                f"{function.name!r} binds loops to GPU threads, which target 'llvm' does not have"
            )
        return []
    limit = target.max_num_threads
    message = f"a block has at most {limit} threads"
    return [(binary("<=", threads, limit), message) for threads in blocks.values()]


def _threads(stmt: Stmt, extents: dict[str, Expr]) -> list[Expr | None]:
    """Return the threads per block at each innermost statement; None outside of any."""
    if isinstance(stmt, For) and stmt.kind is LoopKind.THREAD:
        extents = {**extents, stmt.thread_tag: stmt.extent}
    inner = child_stmts(stmt)
    if inner:
        return [threads for child in inner for threads in _threads(child, extents)]
    if not extents:
        return [None]
    total: Expr = const(1)
    for tag, extent in extents.items():
        if tag.startswith("threadIdx"):
            total = binary("*", total, extent)
    return [total]
