"""Reductions of rows on GPUs and what follows from them: threads that share rows, rows of a block.

What is reduced stays in shared memory for the row's threads. Where every element is a row, this is
a reduction of any kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from autotune import te
from autotune.rules.gpu.thread_loops import bind
from autotune.schedule.schedule import Schedule


@dataclass(frozen=True, slots=True)
class RowMapping:
    """How rows are shared; every size is a number or a knob.

    Attributes
    ----------
    rows
        Rows of a block that are worked on at once.
    threads
        Threads of a row.
    each
        Rows that threads work on, one after the other.
    lanes
        Elements of a row that a thread loads and stores together.
    across
        Whether threads side by side are of one row, else of neighbouring rows.
    """

    rows: Any
    threads: Any
    each: Any
    lanes: Any
    across: bool

    @property
    def tags(self) -> tuple[str, str]:
        """Axes of threads: over rows, and along a row."""
        return ("threadIdx.y", "threadIdx.x") if self.across else ("threadIdx.x", "threadIdx.y")


def schedule_rows(
    s: Schedule,
    result: te.Tensor,
    axes: tuple[Sequence[Any], Any, Any],
    reductions: Sequence[tuple[te.Tensor, Any, Sequence[Any]]],
    how: RowMapping,
) -> None:
    """Schedule a kernel that reduces rows.

    Parameters
    ----------
    s
    result
        What is stored.
    axes
        Its loops around the rows, the loop over rows, and that along a row (None if there is none).
    reductions
        What it reads of each row, with the axis over rows and those it is reduced over.
    how
    """
    around, rows, columns = axes
    stage = s[result]
    block, row = stage.split(rows, factor=how.rows)
    block, some = stage.split(block, factor=how.each)
    stage.reorder(*around, block, some, row, *([] if columns is None else [columns]))
    block = stage.fuse(*around, block) if around else block
    bind(stage, {"blockIdx.x": block, how.tags[0]: row})
    for tensor, axis, reduced in reductions:
        own = s[tensor]
        own.set_scope("shared")
        own.compute_at(stage, block)
        own.reorder(*reduced)
        along = own.fuse(*reduced) if len(reduced) > 1 else reduced[0]
        step, thread = own.split(along, factor=how.threads)
        own.reorder(thread, step)
        _, row = own.split(axis, factor=how.rows)
        bind(own, {how.tags[0]: row, how.tags[1]: thread})
    if columns is not None:
        step, vector = stage.split(columns, factor=how.lanes)
        _, thread = stage.split(step, factor=how.threads)
        stage.vectorize(vector)
        bind(stage, {how.tags[1]: thread})
