"""Reductions of rows on GPUs and what follows from them: threads that share rows, rows of a block.

What is reduced stays in shared memory for the row's threads. Where every element is a row, this is
a reduction of any kind.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from autotune import te
from autotune.ir.algebra.polynomials import to_poly
from autotune.ir.expr import Expr, Var
from autotune.ir.visitor import free_vars
from autotune.rules.gpu.matrix_products import reads_of, steps_of
from autotune.rules.gpu.thread_loops import MULTIPROCESSORS, WARP, before_row, bind
from autotune.rules.stage_graph import reduction_of
from autotune.schedule.schedule import Schedule

OCCUPIED: Final = MULTIPROCESSORS * 1024  # Threads that occupy all multiprocessors.

# Most threads that reduce an element by default, if elements are adjacent in memory.
ACROSS: Final = 16

_ALONG: Final = 256


def goes_along(tensor: te.Tensor) -> bool:
    """Whether adjacent steps of a reduction are adjacent in memory, and its elements are not.

    The largest tensor that it reads decides.
    """
    body = reduction_of(tensor)
    step, elements = steps_of(body)[-1].var, {axis.var for axis in tensor.op.axis}
    found = [r for r in reads_of(body) if r.children]
    if not found:
        return False
    largest = max(found, key=lambda read: math.prod(map(int, read.tensor.shape)))
    index = to_poly(largest.children[-1])
    return any(step in _variables(term) for term in index) and all(
        abs(n) >= WARP for term, n in index.items() if elements & _variables(term)
    )


def _variables(term: Sequence[Expr]) -> set[Var]:
    return {var for atom in term for var in free_vars(atom)}


def most_threads(tensor: te.Tensor) -> int:
    """Return the most threads that reduce an element by default."""
    return _ALONG if goes_along(tensor) else ACROSS


@dataclass(frozen=True, slots=True)
class RowMapping:
    """How rows are shared; every size is a number or a knob."""

    #: Rows of a block that are worked on at once.
    rows: Any
    #: Threads of a row.
    threads: Any
    #: Rows that threads work on, one after the other.
    each: Any
    #: Elements of a row that a thread loads and stores together.
    lanes: Any
    #: Whether threads side by side are of one row, else of neighbouring rows.
    across: bool
    #: Steps of a reduction that a thread loads together; None if it loads them one by one.
    together: Any = None
    #: Whether rows are whole numbers of vectors, so that all of them begin with one.
    is_aligned: bool = True

    @property
    def tags(self) -> tuple[str, str]:
        """Axes of threads: over rows, and along a row."""
        return ("threadIdx.y", "threadIdx.x") if self.across else ("threadIdx.x", "threadIdx.y")


def schedule_rows(
    s: Schedule,
    result: te.Tensor,
    axes: tuple[Sequence[Any], Any, Any],
    reductions: Sequence[tuple[te.Tensor, Any]],
    how: RowMapping,
) -> None:
    """Schedule a kernel that reduces rows.

    `result`: what is stored.
    `axes`: its loops around the rows, the loop over rows, and that along a row (None if there is
    none).
    `reductions`: what it reads of each row, with the axis over rows.
    """
    around, rows, columns = axes
    stage = s[result]
    block, row = stage.split(rows, factor=how.rows)
    block, some = stage.split(block, factor=how.each)
    stage.reorder(*around, block, some, row, *([] if columns is None else [columns]))
    block = stage.fuse(*around, block)
    bind(stage, {"blockIdx.x": block, how.tags[0]: row})
    for tensor, axis in reductions:
        reduced = steps_of(reduction_of(tensor))
        source = source_along(tensor) if how.together is not None else None
        loaded = None if source is None else s.cache_read(source, "local", [tensor])
        own = s[tensor]
        own.set_scope("shared")
        own.compute_at(stage, block)
        own.reorder(*reduced)
        if loaded is None:
            step, thread = own.split(own.fuse(*reduced), factor=how.threads)
            own.reorder(thread, step)
        else:
            (read,) = reads_of(reduction_of(tensor))
            first = [*read.children[:-1], 0]
            before = None if how.is_aligned else before_row(read.tensor, first, how.together)
            vectors, vector = own.split(reduced[-1], factor=how.together, offset=before)
            step, thread = own.split(own.fuse(*reduced[:-1], vectors), factor=how.threads)
            own.reorder(thread, step, vector)
            own.unroll(vector)
            s[loaded].compute_at(own, step)
            s[loaded].vectorize(loaded.op.axis[-1])
        _, row = own.split(axis, factor=how.rows)
        bind(own, {how.tags[0]: row, how.tags[1]: thread})
    if columns is not None:
        first = [axis.var if axis in (*around, rows) else 0 for axis in result.op.axis]
        before = None if how.is_aligned else before_row(result, first, how.lanes)
        step, vector = stage.split(columns, factor=how.lanes, offset=before)
        _, thread = stage.split(step, factor=how.threads)
        stage.vectorize(vector)
        bind(stage, {how.tags[1]: thread})


def source_along(tensor: te.Tensor) -> te.Tensor | None:
    """Return the only tensor that a reduction reads, if the last of its axes lies along it."""
    body = reduction_of(tensor)
    found, step = reads_of(body), steps_of(body)[-1].var
    is_alone = len(found) == 1 and bool(found[0].children)
    return found[0].tensor if is_alone and found[0].children[-1] is step else None
