"""The rule that computes element-wise stages where they are read."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from autotune import te
from autotune.ir.expr import Call
from autotune.ir.visitor import free_vars, walk_expr
from autotune.rules.rewrite_graph import parts_of
from autotune.rules.stage_graph import iterations, reads_in
from autotune.te.scan import ScanOp
from autotune.te.tensor import ComputeOp, Operation, producers_first

#: Largest number of expressions of an inlined stage, to limit copies and nesting.
_LONGEST: Final = 500

#: How often a reduction may repeat an inlined stage.
_OFTEN: Final = 4

#: Calls that only choose or hint.
_FREE: Final = ("if_then_else", "likely")


def inlined_stages(
    outputs: Sequence[te.Tensor], rewritten: Collection[te.Tensor] = ()
) -> set[te.Tensor]:
    """Return the stages to compute where they are read: each element once, or cheaply and rarely.

    ::

        for (i)                              for (i)
          B[i] = A[i] * 2             ->       C[i] = A[i] * 2 + 1
        for (i)
          C[i] = B[i] + 1

    Stages that are inlined into one count for it, because its length is limited. What the cell of a
    scan reads is kept, except for scans in `rewritten`.
    """
    ops = producers_first([t.op for t in outputs])
    scans = [op for op in ops if isinstance(op, ScanOp)]
    kept = {t for op in scans for part in parts_of(op) for t in part.outputs} | set(outputs)
    left = [op for op in scans if not any(t in rewritten for t in op.outputs)]
    kept |= {t for op in left for part in parts_of(op) for t in part.input_tensors}
    readers: dict[te.Tensor, list[ComputeOp]] = {}
    for op in ops:
        for tensor in op.input_tensors:
            if isinstance(op, ComputeOp):
                readers.setdefault(tensor, []).append(op)
            else:
                kept.add(tensor)
    found: set[te.Tensor] = set()
    for op in ops:
        if not isinstance(op, ComputeOp) or len(op.outputs) > 1 or op.output() in kept:
            continue
        if _suits(op, readers.get(op.output(), []), found):
            found.add(op.output())
    return found


def _suits(op: ComputeOp, readers: Sequence[ComputeOp], inlined: Collection[te.Tensor]) -> bool:
    if op.reduce_axis:
        return False
    size = max(iterations(op.output()), 1)
    times = max((iterations(reader.output()) // size for reader in readers), default=1)
    calls = {e.name for v in op.body for e in walk_expr(v) if isinstance(e, Call)}
    if "if_then_else" in calls and any(map(_is_window, readers)):
        return False
    if _chooses_along_rows(op) and any(_repeats(reader, size) for reader in readers):
        return False
    if has_calls(op):
        suits = len(readers) == 1 and times <= 1
    else:
        suits = times < _OFTEN or not any(reader.reduce_axis for reader in readers)
    return suits and _length(op, inlined) <= _LONGEST


def has_calls(op: Operation) -> bool:
    """Whether a stage calls functions such as exp."""
    assert isinstance(op, ComputeOp)
    nodes = (node for value in op.body for node in walk_expr(value))
    return any(isinstance(node, Call) and node.name not in _FREE for node in nodes)


def _is_window(reader: ComputeOp) -> bool:
    """Whether a stage reduces elements of one tensor, so that conditions are most of its work."""
    read = {r.tensor for r in reads_in(reader)}
    return bool(reader.reduce_axis) and len(read) == 1


def _chooses_along_rows(op: ComputeOp) -> bool:
    """Whether neighbours in memory may be computed in different ways, as margins are."""
    choices = [e for v in op.body for e in walk_expr(v) if isinstance(e, Call)]
    tests = (e.children[0] for e in choices if e.name == "if_then_else")
    return any(op.axis[-1].var is var for test in tests for var in free_vars(test))


def _repeats(reader: ComputeOp, size: int) -> bool:
    """Whether a reduction computes elements of a stage of some size again."""
    return bool(reader.reduce_axis) and iterations(reader.output()) > size


def _length(op: ComputeOp, inlined: Collection[te.Tensor]) -> int:
    """Return the number of expressions of a stage, including stages inlined into it."""
    own = sum(1 for value in op.body for _ in walk_expr(value))
    return own + sum(_length(r.tensor.op, inlined) for r in reads_in(op) if r.tensor in inlined)
