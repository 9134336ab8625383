"""Stages of scans: places a scan's init and cell, and checks their readers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autotune.errors import ScheduleError
from autotune.ir.axes import IterVar, Range
from autotune.ir.ops import binary, const
from autotune.schedule.stage_core import Attach
from autotune.te.read_bounds import check_reads
from autotune.te.scan import ScanOp
from autotune.te.tensor import ComputeOp, Tensor

if TYPE_CHECKING:
    from autotune.schedule.schedule import Schedule
    from autotune.schedule.stage import Stage


def place_cells(schedule: Schedule) -> None:
    """Attach the cell of each scan to its steps, and the init before them.

    Raises ScheduleError if a stage outside a scan reads its inner tensors, or a stage is in two
    scans. Raises IRError if a read is out of bounds, in a cell for some computed step.
    """
    for stage in schedule.stages:
        if isinstance(stage.op, ScanOp):
            for init in stage.op.init:
                _place(schedule[init], stage, Attach.INIT)
            for op in stage.op.cell:
                _place(schedule[op], stage, Attach.CELL)
    for stage in schedule.stages:
        if isinstance(stage.op, ScanOp):
            _check_readers(schedule, stage, stage.op)
        elif isinstance(stage.op, ComputeOp) and stage.op.is_for_cell:
            check_reads(stage.name, _spans(stage.op, stage.cell), stage.op.body)


def states(scan: Stage | None) -> tuple[Tensor, ...]:
    """Return the placeholders of the states of a scan; empty for None."""
    return scan.op.state_placeholder if scan is not None and isinstance(scan.op, ScanOp) else ()


def _place(stage: Stage, scan: Stage, attach: Attach) -> None:
    if stage.scan is scan and stage.attach is attach:
        return  # it computes several tensors
    if stage.scan is not None:
        raise ScheduleError(
            f"create_schedule: {stage.name!r} is in scan {stage.scan.name!r} and in "
            f"{scan.name!r}; give each a compute of its own"
        )
    if stage.is_output:
        raise ScheduleError(
            f"create_schedule: {stage.name!r} is part of scan {scan.name!r}, whose result is "
            "its own array; give the scan's operation instead"
        )
    stage.scan, stage.attach = scan, attach
    stage.reset_axes()


def _spans(op: ComputeOp, scan: Stage | None) -> tuple[IterVar, ...]:
    """Return the axes of an operation; in the cell of a scan with the steps that are computed."""
    axes = (*op.axis, *op.reduce_axis)
    if scan is None or not isinstance(scan.op, ScanOp):
        return axes
    steps = scan.op.cell[op]
    low = const(scan.op.first + min(steps.offsets))
    length = binary("-", scan.op.update[0].extents[0] + max(steps.offsets), low)
    time = op.axis[steps.position]
    return tuple(
        IterVar(axis.var, Range(low, length), axis.kind) if axis is time else axis for axis in axes
    )


def _check_readers(schedule: Schedule, scan: Stage, op: ScanOp) -> None:
    """Refuse readers of states, steps and inits that are not part of the scan."""
    for tensor in op.state_placeholder:
        _only(schedule, tensor, scan, "the state")
    for own in op.cell:
        for tensor in own.outputs:
            _only(schedule, tensor, scan, "part of the cell")
    for tensor in op.init:
        for reader in schedule.readers(tensor):
            if reader is not scan:
                _refuse(tensor, scan, "the init", reader)


def _only(schedule: Schedule, tensor: Tensor, scan: Stage, what: str) -> None:
    for reader in schedule.readers(tensor):
        if reader is not scan and reader.cell is not scan:
            _refuse(tensor, scan, what, reader)


def _refuse(tensor: Tensor, scan: Stage, what: str, reader: Stage) -> None:
    raise ScheduleError(
        f"create_schedule: {tensor.name!r} is {what} of scan {scan.name!r}, which has no array of "
        f"it, but {reader.name!r} reads it; read the scan's result instead"
    )
