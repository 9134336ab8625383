"""Loops that store past the caches begin where cache lines of the array do, wherever it lies.

    for (i, 0, 8)                            vectorized (j, 0, 16)
      vectorized (j, 0, 64)                    if j < h: Y[j] = ...
        Y[i*64 + j] = ...                    for (i, 0, (512 - h) // 64)
                                     ->        vectorized (j, 0, 64)
                                                 Y[h + i*64 + j] = ...
                                             ... (the lines and the part of a line that are left)

Here `h` is how many elements `Y` has before a line begins, which the caller's array says. Machines
store past the caches in whole lines; parts of lines are many times as slow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from autotune.ir import dtypes
from autotune.ir.expr import Buffer, Const, Expr, Load, SizeVar, Var
from autotune.ir.ops import binary, const
from autotune.ir.poly import to_poly
from autotune.ir.simplify import Simplifier
from autotune.ir.stmt import Allocate, For, Function, If, LoopKind, Seq, Stmt, Store, seq
from autotune.ir.visitor import (
    Rewriter,
    StmtRewriter,
    all_written,
    child_stmts,
    free_vars,
    stmt_exprs,
    substitute_stmt,
    walk,
)
from autotune.lowering.columns import Apart, accesses
from autotune.lowering.storage import REGISTER_BYTES

#: Bytes of a cache line.
LINE_BYTES = 64


def line_up(function: Function) -> Function:
    """Return the function with its streamed vectors at cache lines, where that can be.

    It can where all loops over vectors of the array run over a constant number of elements that do
    not depend on one another, all loops around move by whole lines, and no other array is streamed
    in them.
    `function.attrs["lines"]` then holds a variable for each array: how many of its elements there
    are before one that begins a line (its remainder by the elements of a line counts).
    """
    streamed = frozenset(function.attrs.get("nontemporal", ()))
    if not streamed:
        return function
    rows = _Rows(streamed, function.attrs.get("states", {}))
    found = _Lines(rows.movable(function.body))
    body = found.stmt(function.body)
    if not found.lines:
        return function
    body = _Moved(found.private()).stmt(body)
    lines = {var: buffer for buffer, var in found.lines.items()}
    return function.with_body(body).with_attrs(lines=lines)


class _Rows:
    """Finds loops over vectors that may begin at cache lines."""

    def __init__(self, streamed: frozenset[str], states: Mapping[str, bool]) -> None:
        self.streamed, self.states = streamed, states

    def movable(self, body: Stmt) -> dict[For, Buffer]:
        """Return the loops that may be moved, and the array whose lines each is to begin at."""
        found: dict[For, Buffer] = {}
        left: dict[Buffer, int] = {}
        self._find(body, found)
        for store in _stores(body):
            left[store.buffer] = left.get(store.buffer, 0) + 1
        for loop, goal in found.items():
            left[goal] -= sum(store.buffer is goal for store in _stores(loop.body))
        return {loop: goal for loop, goal in found.items() if not left[goal]}

    def _find(self, stmt: Stmt, found: dict[For, Buffer]) -> None:
        goal = self._goal(stmt) if isinstance(stmt, For) else None
        if goal is not None and isinstance(stmt, For):
            found[stmt] = goal
            return
        for child in child_stmts(stmt):
            self._find(child, found)

    def _goal(self, loop: For) -> Buffer | None:
        """Return the array whose lines a loop over vectors is to begin at; None if it may not."""
        if loop.kind is not LoopKind.SERIAL or not isinstance(loop.extent, Const):
            return None
        goals = {s.buffer for s in _stores(loop.body) if s.buffer.name in self.streamed}
        if len(goals) != 1 or not _only_vectors(loop.body):
            return None
        (goal,), vectors = goals, list(_vectors(loop.body))
        lanes, elements = vectors[0].extent, _elements(goal)
        if not isinstance(lanes, Const) or lanes.value % elements:
            return None
        stores = [(s, v) for v in vectors for s in _stores(v) if s.buffer is goal]
        if any(vector.extent is not lanes for vector in vectors) or not all(
            _by_lines(store.index, vector.var, elements) for store, vector in stores
        ):
            return None
        return goal if self._is_row(loop, vectors) else None

    def _is_row(self, loop: For, vectors: list[For]) -> bool:
        """Whether a loop runs over elements in no particular order, and its vectors over parts."""
        step = {vector.var: binary("-", vector.var, vector.extent) for vector in vectors}
        following = {loop.var: binary("+", loop.var, const(1)), **step}
        pairs = zip(_exprs(loop.body), _exprs(substitute_stmt(loop.body, following)), strict=True)
        if not all(a is b for a, b in pairs):
            return False
        lane = Var("lane", vectors[0].var.dtype)
        body = _OneLane(lane).stmt(loop.body)
        written = all_written(body)
        found = [access for access in accesses(body) if access.buffer in written]
        axes = {loop.var: loop.extent, lane: vectors[0].extent}
        return Apart(axes, self.states).shared(found) is None


class _Lines(StmtRewriter):
    """Moves loops over vectors to where lines begin.

    Attributes
    ----------
    lines : dict of Buffer to SizeVar
        Where the arrays begin.
    """

    def __init__(self, goals: Mapping[For, Buffer]) -> None:
        super().__init__()
        self.goals = goals
        self.lines: dict[Buffer, SizeVar] = {}
        self.allocated: set[Buffer] = set()
        self._beside: dict[Buffer, set[Expr | None]] = {}

    def private(self) -> dict[Buffer, Expr]:
        """Return the allocations to be moved as well, so that their vectors lie at lines too."""
        return {
            buffer: shift
            for buffer, (shift, *others) in self._beside.items()
            if shift is not None and not others
        }

    def visit_Allocate(self, node: Allocate) -> Stmt:
        """Note an array of the function's own."""
        self.allocated.add(node.buffer)
        return self.rebuild_stmt(node)

    def visit_For(self, node: For) -> Stmt:
        """Move a loop over vectors if it is one, else look further in."""
        goal = self.goals.get(node)
        return self.rebuild_stmt(node) if goal is None else self._moved(node, goal)

    def _moved(self, loop: For, goal: Buffer) -> Stmt:
        """Return a loop over vectors as four: part of a line, vectors, lines, part of a line."""
        elements = _elements(goal)
        start = self.lines.setdefault(goal, SizeVar(f"{goal.name}.line"))
        line, vector_length = const(elements), next(_vectors(loop.body)).extent
        head = binary("%", start, line)
        for vector in _vectors(loop.body):
            self._note(vector, binary("-", line, head), elements)
        length = binary("*", loop.extent, vector_length)
        rest = binary("-", length, head)
        vectors, lines = binary("//", rest, vector_length), binary("//", rest, line)
        more = binary("%", lines, binary("//", vector_length, line))
        behind = binary("+", head, binary("*", vectors, vector_length))
        end = binary("+", head, binary("*", lines, line))
        return seq(
            _Piece(loop, const(0), line, below=head).part(),
            _Piece(loop, head, vector_length).loop(vectors),
            _Piece(loop, behind, line).loop(more),
            _Piece(loop, end, line, below=binary("%", rest, line)).part(),
        )

    def _note(self, vector: For, shift: Expr, elements: int) -> None:
        """Note which allocations have vectors at lines where the array that is streamed has."""
        for access in accesses(vector.body):
            buffer = access.buffer
            if buffer in self.allocated:
                fits = _elements(buffer) == elements and _is_long_row(buffer)
                fits = fits and _by_lines(access.index, vector.var, elements)
                self._beside.setdefault(buffer, set()).add(shift if fits else None)


class _OneLane(StmtRewriter):
    """Takes the loops over lanes away, whose variables become one."""

    def __init__(self, lane: Var) -> None:
        super().__init__()
        self.lane = lane

    def visit_For(self, node: For) -> Stmt:
        if node.kind is LoopKind.VECTORIZED:
            return substitute_stmt(node.body, {node.var: self.lane})
        return self.rebuild_stmt(node)


class _Piece(StmtRewriter):
    """Writes a loop over vectors for some of the row: vectors of some length from some element on.

    Parameters
    ----------
    row : For
        The loop over all of the row.
    start, lanes : Expr
        The first element, and how many a vector has.
    below : Expr, optional
        How many lanes count; all if it is left out.
    """

    def __init__(self, row: For, start: Expr, lanes: Expr, below: Expr | None = None) -> None:
        super().__init__()
        self.row, self.start, self.lanes, self.below = row, start, lanes, below
        self.var = Var(row.var.name, row.var.dtype)

    def part(self) -> Stmt:
        """Return what is done for the first vector."""
        return substitute_stmt(self.stmt(self.row.body), {self.var: const(0)})

    def loop(self, extent: Expr) -> Stmt:
        """Return what is done for so many vectors."""
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


class _Moved(Rewriter):
    """Lets allocations begin some elements after the start of a line."""

    def __init__(self, shifts: Mapping[Buffer, Expr]) -> None:
        super().__init__()
        self.shifts = shifts
        self.moved = {buffer: _roomier(buffer) for buffer in shifts}

    def visit_Allocate(self, node: Allocate) -> Stmt:
        return Allocate(self.moved.get(node.buffer, node.buffer), self.stmt(node.body))

    def visit_Store(self, node: Store) -> Stmt:
        return Store(*self._place(node.buffer, node.index), self.expr(node.value))

    def visit_Load(self, node: Load) -> Expr:
        return Load(*self._place(node.buffer, node.index))

    def _place(self, buffer: Buffer, index: Expr) -> tuple[Buffer, Expr]:
        index = self.expr(index)
        if buffer not in self.shifts:
            return buffer, index
        return self.moved[buffer], binary("+", index, self.shifts[buffer])


def _roomier(buffer: Buffer) -> Buffer:
    *others, last = buffer.shape
    shape = (*others, binary("+", last, const(_elements(buffer))))
    return Buffer(buffer.name, buffer.dtype, shape, buffer.scope)


def _elements(buffer: Buffer) -> int:
    """Return how many elements of an array a line holds."""
    return LINE_BYTES // dtypes.itemsize(buffer.dtype)


def _is_long_row(buffer: Buffer) -> bool:
    """Whether an array is one row, too long for registers."""
    sizes = [int(extent.value) if isinstance(extent, Const) else 0 for extent in buffer.shape]
    is_row = all(size == 1 for size in sizes[:-1])
    return is_row and sizes[-1] * dtypes.itemsize(buffer.dtype) > REGISTER_BYTES


def _by_lines(index: Expr, lane: Var, elements: int) -> bool:
    """Whether an index is the lane and whole lines."""
    terms = to_poly(index)
    return terms.pop((lane,), 0) == 1 and all(
        scale % elements == 0 and all(var is not lane for atom in atoms for var in free_vars(atom))
        for atoms, scale in terms.items()
    )


def _vectors(stmt: Stmt) -> Iterator[For]:
    for inner in walk(stmt):
        if isinstance(inner, For) and inner.kind is LoopKind.VECTORIZED:
            yield inner


def _stores(stmt: Stmt) -> Iterator[Store]:
    return (inner for inner in walk(stmt) if isinstance(inner, Store))


def _only_vectors(stmt: Stmt) -> bool:
    """Whether all that a statement does is done by loops over the lanes of vectors."""
    match stmt:
        case For(_, _, LoopKind.VECTORIZED, body):
            return all(isinstance(inner, (Store, If, Seq)) for inner in walk(body))
        case For(_, _, LoopKind.SERIAL | LoopKind.UNROLLED | LoopKind.UNROLL_HINTED, _):
            return all(map(_only_vectors, child_stmts(stmt)))
        case Seq() | If():
            return all(map(_only_vectors, child_stmts(stmt)))
        case _:
            return False


def _exprs(stmt: Stmt) -> list[Expr]:
    """Return the expressions of a statement, in order, each simplified."""
    simple = Simplifier().stmt(stmt)
    return [expr for inner in walk(simple) for expr in stmt_exprs(inner)]
