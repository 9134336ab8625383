"""Facts of a function's buffers: hints of stages, states of scans.

Later passes and code generators read them in `PrimFunc.attrs`, by the names of buffers.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Any

from autotune.ir.expr import Expr
from autotune.ir.ops import binary
from autotune.ir.visitor import reads
from autotune.lowering.nest.bound_inference import is_sized
from autotune.lowering.nest.buffer_layout import StorageLayout
from autotune.schedule.stage import Stage
from autotune.te.scan import ScanOp
from autotune.te.tensor import PlaceholderOp, Tensor


def buffer_attrs(layout: StorageLayout, parameters: Set[Tensor]) -> dict[str, Any]:
    """Return the attributes of a function whose loads and stores `layout` has placed.

    Returns
    -------
    dict
        ``nontemporal``: buffers that are stored past the caches.
        ``at_least``: sizes of scans, and the least number of steps of each. ``states``: arrays with
        the states of scans, and whether each index into them determines the element of a step.
        ``blocks_per_multiprocessor``: the requested number, by the buffer that the blocks compute.
        ``ahead``: prefetch distances of inputs of scans in elements. ``through_registers``,
        ``through_copies``: buffers that are filled one iteration ahead.
    """
    stages = list(layout.bounds.bodies)

    def names(of: Iterator[Stage]) -> tuple[str, ...]:
        return tuple(layout.buffers[tensor].name for stage in of for tensor in stage.outputs)

    return {
        "nontemporal": names(s for s in stages if s.has_pragma("nontemporal_store")),
        "at_least": tuple(
            (op.update[0].extents[0], op.first)
            for op in (stage.op for stage in stages)
            if isinstance(op, ScanOp) and is_sized(op.update[0].extents[0])
        ),
        "states": {
            buffer.name: buffer not in layout.mixed
            for stage in stages
            if isinstance(stage.op, ScanOp)
            for buffer in (*map(layout.buffers.__getitem__, stage.outputs), *layout.rings_of(stage))
        },
        "blocks_per_multiprocessor": {
            layout.buffers[tensor].name: pragmas["blocks_per_multiprocessor"]
            for stage in stages
            for pragmas in stage.pragmas.values()
            if "blocks_per_multiprocessor" in pragmas
            for tensor in stage.outputs
        },
        "ahead": _ahead(layout, parameters),
        **{
            f"through_{way}": names(s for s in stages if s.buffered_through == way)
            for way in ("registers", "copies")
        },
    }


def _ahead(layout: StorageLayout, parameters: Set[Tensor]) -> dict[str, Expr]:
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
