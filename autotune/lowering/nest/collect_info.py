"""Facts and hints for later passes: pragmas of loops, hints of stages, states of scans."""

from __future__ import annotations

from collections.abc import Iterator, Set

from autotune.ir.expr import Expr
from autotune.ir.ops import binary
from autotune.ir.stmt import FunctionInfo
from autotune.ir.visitor import reads
from autotune.lowering.nest.axis_loops import AxisLoops
from autotune.lowering.nest.bound_inference import is_sized
from autotune.lowering.nest.buffer_layout import StorageLayout
from autotune.schedule.stage import Stage
from autotune.te.scan import ScanOp
from autotune.te.tensor import PlaceholderOp, Tensor


def function_info(loops: AxisLoops, layout: StorageLayout, parameters: Set[Tensor]) -> FunctionInfo:
    """Return the facts and hints of a function from its loops and the layout of its buffers."""
    stages = list(layout.bounds.bodies)

    def names(of: Iterator[Stage]) -> frozenset[str]:
        return frozenset(layout.buffers[tensor].name for stage in of for tensor in stage.outputs)

    return FunctionInfo(
        requirements=tuple(loops.requirements),
        bound_axes=loops.bound_axes,
        unroll_pragmas=loops.unroll_pragmas,
        least_extents=tuple(
            (op.update[0].extents[0], op.first)
            for op in (stage.op for stage in stages)
            if isinstance(op, ScanOp) and is_sized(op.update[0].extents[0])
        ),
        scan_states={
            buffer.name: buffer not in layout.mixed
            for stage in stages
            if isinstance(stage.op, ScanOp)
            for buffer in (*map(layout.buffers.__getitem__, stage.outputs), *layout.rings_of(stage))
        },
        nontemporal=names(s for s in stages if s.has_pragma("nontemporal_store")),
        prefetch_distances=_prefetch_distances(layout, parameters),
        blocks_per_multiprocessor={
            layout.buffers[tensor].name: pragmas["blocks_per_multiprocessor"]
            for stage in stages
            for pragmas in stage.pragmas.values()
            if "blocks_per_multiprocessor" in pragmas
            for tensor in stage.outputs
        },
        loaded_ahead=names(s for s in stages if s.buffered_through == "registers"),
        copied_ahead=names(s for s in stages if s.buffered_through == "copies"),
    )


def _prefetch_distances(layout: StorageLayout, parameters: Set[Tensor]) -> dict[str, Expr]:
    """Return the prefetch distances of inputs of scans in elements."""
    found: dict[str, Expr] = {}
    for stage, body in layout.bounds.bodies.items():
        scan = stage.cell
        steps = None if scan is None else scan.pragma_value("prefetch_steps")
        if scan is None or steps is None:
            continue
        here = {axis.var for axis in stage.op.axis if layout.bounds.is_step(scan, axis)}
        later = {var: binary("+", var, steps) for var in here}
        for read in (read for expr in body for read in reads(expr)):
            if isinstance(read.tensor.op, PlaceholderOp) and read.tensor in parameters:
                distance = layout.distance(read.tensor, read.children, later)
                if distance is not None:
                    found[layout.buffers[read.tensor].name] = distance
    return found
