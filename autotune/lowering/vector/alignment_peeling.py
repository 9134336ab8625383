"""Alignment peeling: loops with streaming stores begin at cache lines of the array.

    for (i, 0, 8)                            vectorized (j, 0, 16)
      vectorized (j, 0, 64)                    if j < h: Y[j] = ...
        Y[i*64 + j] = ...                    for (i, 0, (512 - h) // 64)
                                     ->        vectorized (j, 0, 64)
                                                 Y[h + i*64 + j] = ...
                                             ... (the lines and the part of a line that are left)

`h` is the number of elements of `Y` before its first cache line, computed from the caller's
pointer. Processors store whole lines past the caches; partial lines are many times slower.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from autotune.ir import dtypes
from autotune.ir.algebra.polynomials import to_expr
from autotune.ir.algebra.simplify_stmt import Simplifier
from autotune.ir.expr import Buffer, Const, Expr, SizeVar, Var
from autotune.ir.ops import binary, const
from autotune.ir.stmt import Allocate, For, If, LoopKind, PrimFunc, Stmt, seq
from autotune.ir.visitor import AccessRewriter, StmtRewriter, substitute_stmt, transform
from autotune.lowering.dependence.accesses import accesses
from autotune.lowering.storage_rewrite import REGISTER_BYTES
from autotune.lowering.vector.peeling_legality import (
    AlignableLoops,
    by_lines,
    elements_of_line,
    limited,
    place_in_line,
    vectors_in,
)


def peel_for_alignment(function: PrimFunc) -> PrimFunc:
    """Return the function with its streamed vectors aligned to cache lines, where possible.

    It is possible if all loops over vectors of the array have a constant number of independent
    elements, in vectors of whole lines, and stream no other array.
    `info.line_offsets` of the result has a variable for each array: the number of its elements
    before the first cache line (only the remainder by the elements of a line is used).
    """
    streamed = function.info.nontemporal.intersection(b.name for b in function.params)
    if not streamed:
        return function
    rows = AlignableLoops(streamed, function.info.scan_states)
    goals = rows.movable(function.body)
    found = _AlignmentPeeling(goals, rows.tasks(function.body, goals))
    body = found.stmt(function.body)
    if not found.lines:
        return function
    body = _shifted(body, found.private())
    offsets = {var: buffer for buffer, var in found.lines.items()}
    return replace(function, body=body, info=replace(function.info, line_offsets=offsets))


class _AlignmentPeeling(StmtRewriter):
    """Aligns loops over vectors to cache lines."""

    def __init__(self, goals: Mapping[For, Buffer], tasks: Mapping[For, For]) -> None:
        super().__init__()
        self.goals, self.tasks = goals, tasks
        #: Variables with the number of elements before the first cache line.
        self.lines: dict[Buffer, SizeVar] = {}
        self.allocated: set[Buffer] = set()
        self._beside: dict[Buffer, set[Expr | None]] = {}

    def private(self) -> dict[Buffer, Expr]:
        """Return the allocations to offset as well, so that their vectors are aligned, too."""
        return {
            buffer: shift
            for buffer, (shift, *others) in self._beside.items()
            if shift is not None and not others
        }

    def visit_Allocate(self, node: Allocate) -> Stmt:
        """Record an array that the function allocates."""
        self.allocated.add(node.buffer)
        return self.rebuild_stmt(node)

    def visit_For(self, node: For) -> Stmt:
        """Align a loop over vectors; visit the body of other loops."""
        goal = self.goals.get(node)
        return self.rebuild_stmt(node) if goal is None else self._moved(node, goal)

    def _moved(self, loop: For, goal: Buffer) -> Stmt:
        """Return a loop as four: a partial line, vectors, full lines, a partial line.

        If a row is a task's part of a longer row, it ends with a cache line, and the next part
        begins there.
        """
        elements, first = elements_of_line(goal), place_in_line(loop, goal)
        start: Expr = self.lines.setdefault(goal, SizeVar(f"{goal.name}.line"))
        line, vector_length = const(elements), next(vectors_in(loop.body)).extent
        if first:
            start = binary("-", start, to_expr(first))
        head = binary("%", start, line)
        for vector in vectors_in(loop.body):
            self._note(vector, None if first else binary("-", line, head), elements)
        length = binary("*", loop.extent, vector_length)
        task, number = self.tasks.get(loop), None
        if task is None:
            loop, number = limited(loop)
        if number is not None:
            length = binary("max", const(0), binary("min", length, number))
            head = binary("min", head, length)
        before, rest = head, binary("-", length, head)
        if task is not None:  # only the first part has elements before a line
            before = binary("max", const(0), binary("-", head, binary("*", task.var, line)))
            left = binary("*", binary("-", task.extent, task.var), length)
            rest = binary("min", length, binary("-", left, head))
        vectors, lines = binary("//", rest, vector_length), binary("//", rest, line)
        more = binary("%", lines, binary("//", vector_length, line))
        behind = binary("+", head, binary("*", vectors, vector_length))
        end = binary("+", head, binary("*", lines, line))
        return seq(
            _Piece(loop, const(0), line, below=before).part(),
            _Piece(loop, head, vector_length).loop(vectors),
            _Piece(loop, behind, line).loop(more),
            _Piece(loop, end, line, below=binary("%", rest, line)).part(),
        )

    def _note(self, vector: For, shift: Expr | None, elements: int) -> None:
        """Find allocations whose vectors must be aligned like those of the streamed array."""
        for access in accesses(vector.body):
            buffer = access.buffer
            if buffer in self.allocated:
                fits = elements_of_line(buffer) == elements and _is_long_row(buffer)
                fits = fits and by_lines(access.index, vector.var, elements)
                self._beside.setdefault(buffer, set()).add(shift if fits else None)


class _Piece(StmtRewriter):
    """Writes a loop over a part of the row: vectors of some length from some element on.

    `row`: the loop over the whole row.
    `start`, `lanes`: the first element, and the lanes of a vector.
    `below`: number of active lanes; by default all.
    """

    def __init__(self, row: For, start: Expr, lanes: Expr, below: Expr | None = None) -> None:
        super().__init__()
        self.row, self.start, self.lanes, self.below = row, start, lanes, below
        self.var = Var(row.var.name, row.var.dtype)

    def part(self) -> Stmt:
        """Return the statement for the first vector."""
        return substitute_stmt(self.stmt(self.row.body), {self.var: const(0)})

    def loop(self, extent: Expr) -> Stmt:
        """Return the loop over some number of vectors."""
        return For(self.var, extent, self.row.kind, self.stmt(self.row.body))

    def visit_For(self, node: For) -> Stmt:
        if node.kind is not LoopKind.VECTORIZED:
            return self.rebuild_stmt(node)
        lane = Var(node.var.name, node.var.dtype)
        place = binary("+", binary("*", self.var, self.lanes), binary("+", self.start, lane))
        body = substitute_stmt(node.body, {self.row.var: const(0), node.var: place})
        body = Simplifier().stmt(body)
        if self.below is not None:
            body = If(binary("<", lane, self.below), body)
        return For(lane, self.lanes, node.kind, body)


def _shifted(stmt: Stmt, shifts: Mapping[Buffer, Expr]) -> Stmt:
    """Return a statement whose allocations begin some elements before a cache line."""
    roomy = {buffer: _roomier(buffer) for buffer in shifts}

    def place(buffer: Buffer, index: Expr) -> tuple[Buffer, Expr]:
        if buffer not in shifts:
            return buffer, index
        return roomy[buffer], binary("+", index, shifts[buffer])

    def allocation(node: Stmt) -> Stmt | None:
        if isinstance(node, Allocate) and node.buffer in roomy:
            return Allocate(roomy[node.buffer], node.body)
        return None

    return transform(AccessRewriter(place).stmt(stmt), after=allocation)


def _roomier(buffer: Buffer) -> Buffer:
    *others, last = buffer.shape
    shape = (*others, binary("+", last, const(elements_of_line(buffer))))
    return Buffer(buffer.name, buffer.dtype, shape, buffer.scope)


def _is_long_row(buffer: Buffer) -> bool:
    """Whether an array is one row, too long for registers."""
    sizes = [int(extent.value) if isinstance(extent, Const) else 0 for extent in buffer.shape]
    is_row = all(size == 1 for size in sizes[:-1])
    return is_row and sizes[-1] * dtypes.itemsize(buffer.dtype) > REGISTER_BYTES
