"""Loop interchange of scans: moves unrolled steps into the loop over columns, where it is legal.

    unrolled (t, 0, 4)                           for (i, 0, 32)
      for (i, 0, 32)                     ->        unrolled (t, 0, 4)
        S[t + 1, i] = S[t, i] + X[t, i]              S[t + 1, i] = S[t, i] + X[t, i]

Values that one step passes to the next then stay in registers.
"""

from __future__ import annotations

from collections.abc import Mapping

from autotune.ir.stmt import For, If, LoopKind, PrimFunc, Stmt
from autotune.ir.visitor import all_written, free_vars, transform
from autotune.lowering.dependence.accesses import accesses
from autotune.lowering.dependence.dependence_test import DependenceTest


def interchange_steps(function: PrimFunc) -> PrimFunc:
    """Return an analysed function with unrolled steps inside loops over independent columns."""
    states = function.info.scan_states

    def interchanged(steps: Stmt) -> Stmt | None:
        if isinstance(steps, For) and steps.kind is LoopKind.UNROLLED:
            return _interchanged(steps, states)
        return None

    return function.with_body(transform(function.body, after=interchanged)) if states else function


def _interchanged(steps: For, states: Mapping[str, bool]) -> For:
    """Return unrolled steps inside the loops over columns that are all they hold."""
    guard, columns = None, steps.body
    if isinstance(columns, If) and columns.orelse is None:
        guard, columns = columns.condition, columns.then
    if not isinstance(columns, For) or columns.kind is not LoopKind.SERIAL:
        return steps
    inner = steps.with_body(columns.body)
    written = all_written(inner)
    carries = any(buffer.name in states for buffer in written)
    if not carries or any(var is steps.var for var in free_vars(columns.extent)):
        return steps
    found = [access for access in accesses(inner) if access.buffer in written]
    if DependenceTest({columns.var: columns.extent}, states).shared(found) is not None:
        return steps
    if guard is not None:
        inner = steps.with_body(If(guard, columns.body))
    return columns.with_body(_interchanged(inner, states))
