"""The rule for all other scans: each step is computed in tiles, columns side by side.

Stages that only steps read, at the present step, are computed in the steps: of a long intermediate
result only one step exists at a time. If one stage outside reads the scan at fixed elements of some
columns, the scan is computed in its loops, else it has loops of its own. ::

    for (i)                                parallel (i.outer)
      for (t)                                for (t)
        for (k, j) S[t, i, j] += ...           for (j.outer)
      for (t)                      ->            unrolled (i, j.vectors)
        for (j) A[t, i, j] =                       vectorized (j)
            f(A[t - 1, i, j], S[t, i, j])            S[i, j] += ...
                                                 A[t, i, j] = f(A[t - 1, i, j], S[i, j])
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from autotune import te
from autotune.ir.expr import BinaryOp, Const, Expr, Read
from autotune.ir.visitor import free_vars, mentions, reads, substitute, walk_expr
from autotune.rules.rewrite_graph import parts_of
from autotune.rules.stage_graph import extent, reads_in, reduction_of
from autotune.te.scan import ScanOp
from autotune.te.tensor import ComputeOp, Operation


@dataclass(frozen=True)
class Outside:
    """The stage in whose loops a scan is computed."""

    op: ComputeOp
    #: Its axes along the columns of the scan.
    columns: list[Any]
    #: Neighbours along one of these that read the same step.
    grain: int | None


@dataclass(eq=False)
class Cell:
    """What is computed in each step of a scan."""

    scan: ScanOp
    #: The only reader of the scan, if it reads single elements of its columns.
    outside: Outside | None
    #: The operations of a step, readers first, and which axis of each is the step.
    stages: dict[ComputeOp, int] = field(default_factory=dict)
    #: Of each operation that is read in a step or starts the scan, its axes along the scan's
    #: columns: the dimensions along which elements are independent. An axis is None if it has none.
    columns: dict[Operation, list[Any]] = field(default_factory=dict)

    def readers(self, op: ComputeOp) -> list[ComputeOp]:
        """Return the stages of a step that read a stage."""
        return [o for o in self.stages if any(t in o.input_tensors for t in op.outputs)]

    def end_of(self, op: ComputeOp) -> ComputeOp | None:
        """Return the only reader of a reduction, if it reads it element by element."""
        readers = self.readers(op)
        if len(readers) != 1 or len(op.outputs) > 1 or op.output() in self.scan.update:
            return None
        (end,) = readers
        own = [r for r in reads_in(end) if r.tensor is op.output()]
        axes = {a.var for a in end.axis}
        at = all(
            r.children[-1] is end.axis[-1].var
            and all(isinstance(i, Const) or i in axes for i in r.children)
            for r in own
        )
        return end if at and not end.reduce_axis else None


def cell_of(
    scan: ScanOp,
    ops: Sequence[Operation],
    outputs: Collection[te.Tensor],
    inlined: Collection[te.Tensor],
) -> Cell:
    """Return the cell of a scan.

    If the scan is computed in the loops of its reader, stages that only its steps read, each at its
    own step, belong to it: only a part of them exists at a time.
    """
    cell = Cell(scan, outside_of(scan, ops, outputs, inlined))
    dims = sorted(scan.apart)
    for tensor in (*scan.update, *scan.init):
        cell.columns[tensor.op] = [tensor.op.axis[n] for n in dims]
    for own, steps in scan.cell.items():
        cell.stages[own] = steps.position
        _follow(cell, own)
    if cell.outside is None:
        return cell
    for op in reversed(ops):
        if op in cell.stages or not isinstance(op, ComputeOp) or len(op.outputs) > 1:
            continue
        readers = [o for o in ops if op.output() in o.input_tensors]
        if op.output() in (*outputs, *inlined) or not all(r in cell.stages for r in readers):
            continue
        places = [
            {n for n, i in enumerate(read.children) if i is _step(cell, reader)}
            for reader in readers
            for read in reads_in(reader)
            if read.tensor is op.output()
        ]
        shared = set.intersection(*places) if places else set()
        if len(shared) == 1:
            cell.stages[op] = shared.pop()
            _follow(cell, op)
    return cell


def _step(cell: Cell, reader: Operation) -> Expr:
    assert isinstance(reader, ComputeOp)
    step: Expr = reader.axis[cell.stages[reader]].var
    return step


def _follow(cell: Cell, op: ComputeOp) -> None:
    """Note the columns of what a stage of a cell reads."""
    for read in reads_in(op):
        inner = read.tensor.op
        if not isinstance(inner, ComputeOp) or any(t in cell.scan.update for t in inner.outputs):
            continue
        pairs = list(zip(inner.axis, read.children, strict=True))
        own = [
            None if axis is None else next((a for a, i in pairs if i is axis.var), None)
            for axis in cell.columns[op]
        ]
        known = cell.columns.setdefault(inner, own)
        cell.columns[inner] = [a if a is b else None for a, b in zip(known, own, strict=True)]


def outside_of(
    scan: ScanOp,
    ops: Sequence[Operation],
    outputs: Collection[te.Tensor],
    inlined: Collection[te.Tensor],
) -> Outside | None:
    """Return the only reader of a scan, if it reads single elements of its columns."""
    if any(t in outputs for t in scan.outputs) or not scan.apart:
        return None
    readers = [op for op in ops if any(t in op.input_tensors for t in scan.outputs)]
    if len(readers) != 1:
        return None
    (op,) = readers
    if not isinstance(op, ComputeOp) or op.reduce_axis or len(op.outputs) > 1:
        return None
    if op.output() in inlined or any(op in parts_of(o) for o in ops if isinstance(o, ScanOp)):
        return None
    own = [r for r in reads_in(op) if r.tensor in scan.outputs]
    columns = []
    for n in sorted(scan.apart):
        at = [next((a for a in op.axis if a.var is r.children[n]), None) for r in own]
        if at[0] is None or any(a is not at[0] for a in at):
            return None
        columns.append(at[0])
    grains = [
        int(node.b.value)
        for read in own
        for node in walk_expr(read.children[0])
        if isinstance(node, BinaryOp) and node.op == "//" and isinstance(node.b, Const)
        if any(node.a is a.var for a in columns)
    ]
    return Outside(op, columns, grains[0] if grains else None)


def is_contraction(op: ComputeOp) -> bool:
    """Whether a reduction reads two or more operands."""
    return bool(op.reduce_axis) and len({r.tensor for r in reads_in(op)}) > 1


def panels_and_tile(cell: Cell, tensor: te.Tensor) -> list[te.Tensor]:
    """Return what replaces a reduction in a cell; the last one has its elements.

    Operands that are not contiguous along the last axis of the reduction are laid out anew so
    that they are, if they do not depend on the scan. A reduction whose reader does not read it
    element by element is copied, so that it can be computed in registers.
    """
    op, reduced = tensor.op, reduction_of(tensor)
    assert isinstance(op, ComputeOp)
    last, panels = op.axis[-1], dict[Read, Expr]()
    made: list[te.Tensor] = []
    own = {*cell.scan.state_placeholder, *(t for o in cell.stages for t in o.outputs)}
    for read in dict.fromkeys(r for source in reduced.sources for r in reads(source)):
        across = any(mentions(i, last.var) for i in read.children[:-1])
        if not across or read.tensor in own:
            continue
        used = set(free_vars(read))
        axes = [a for a in (*op.axis[:-1], *reduced.axes) if a.var in used]

        def element(*index: Any, axes: Any = axes, read: Read = read) -> Any:
            values = {a.var: i for a, i in zip([*axes, last], index, strict=True)}
            return substitute(read, values)

        panel = te.compute(
            tuple(extent(a) for a in (*axes, last)), element, name=f"{read.tensor.name}_panel"
        )
        panels[read] = panel[(*(a.var for a in axes), last.var)]
        made.append(panel)
    if panels:
        tensor = ComputeOp(op.name, op.axis, (substitute(reduced, panels),), tag=op.tag).output()
    made.append(tensor)
    return made
