"""Finds loops over vectors that can begin at cache lines of the arrays that they write.

See `alignment_peeling`, which moves them there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from autotune.ir import dtypes
from autotune.ir.algebra.polynomials import to_poly
from autotune.ir.algebra.simplify_stmt import Simplifier
from autotune.ir.expr import Buffer, Const, Expr, Var
from autotune.ir.ops import binary, const
from autotune.ir.stmt import For, If, LoopKind, Seq, Stmt, Store
from autotune.ir.visitor import (
    all_written,
    child_stmts,
    free_vars,
    stmt_exprs,
    substitute_stmt,
    transform,
    walk,
)
from autotune.lowering.dependence.accesses import accesses
from autotune.lowering.dependence.dependence_test import DependenceTest

#: Bytes of a cache line.
LINE_BYTES = 64


class AlignableLoops:
    """Finds loops over vectors that may begin at cache lines."""

    def __init__(self, streamed: frozenset[str], states: Mapping[str, bool]) -> None:
        self.streamed, self.states = streamed, states

    def movable(self, body: Stmt) -> dict[For, Buffer]:
        """Return the loops that can be aligned, and the array that each is aligned to."""
        found: dict[For, Buffer] = {}
        left: dict[Buffer, int] = {}
        self._find(body, found)
        for store in stores_in(body):
            left[store.buffer] = left.get(store.buffer, 0) + 1
        for loop, goal in found.items():
            left[goal] -= sum(store.buffer is goal for store in stores_in(loop.body))
        return {loop: goal for loop, goal in found.items() if not left[goal]}

    def _find(self, stmt: Stmt, found: dict[For, Buffer]) -> None:
        goal = self._goal(stmt) if isinstance(stmt, For) else None
        if goal is not None and isinstance(stmt, For):
            found[stmt] = goal
            return
        for child in child_stmts(stmt):
            self._find(child, found)

    def _goal(self, loop: For) -> Buffer | None:
        """Return the array that a loop over vectors is aligned to; None if it cannot be aligned."""
        if loop.kind is not LoopKind.SERIAL or not isinstance(loop.extent, Const):
            return None
        goals = {s.buffer for s in stores_in(loop.body) if s.buffer.name in self.streamed}
        if len(goals) != 1 or not _only_vectors(loop.body):
            return None
        (goal,), vectors = goals, list(vectors_in(loop.body))
        lanes, elements = vectors[0].extent, elements_of_line(goal)
        if not isinstance(lanes, Const) or lanes.value % elements:
            return None
        stores = [(s, v) for v in vectors for s in stores_in(v) if s.buffer is goal]
        if any(vector.extent is not lanes for vector in vectors) or not all(
            by_lines(store.index, vector.var, elements) for store, vector in stores
        ):
            return None
        return goal if self._is_row(loop, vectors) else None

    def tasks(self, body: Stmt, rows: Mapping[For, Buffer]) -> dict[For, For]:
        """Return the parallel loop over the parts of longer rows.

        Elements may then move from one iteration to another.
        """
        found: dict[For, For] = {}
        for task in walk(body):
            if isinstance(task, For) and task.kind is LoopKind.PARALLEL:
                own = [stmt for stmt in walk(task.body) if isinstance(stmt, For) and stmt in rows]
                if own and self._is_shared(task, own, rows):
                    found |= dict.fromkeys(own, task)
        return found

    def _is_shared(self, task: For, own: list[For], rows: Mapping[For, Buffer]) -> bool:
        """Whether all iterations of a parallel loop execute the same statements for their rows."""
        lanes = next(vectors_in(own[0])).extent
        if not isinstance(task.extent, Const) or any(
            rows[row] is not rows[own[0]]
            or row.extent is not own[0].extent
            or next(vectors_in(row)).extent is not lanes
            for row in own
        ):
            return False
        length = binary("*", own[0].extent, lanes)
        for row in own:
            step = {v.var: binary("-", v.var, length) for v in vectors_in(row)}
            following = {task.var: binary("+", task.var, const(1)), **step}
            if not _same(row.body, substitute_stmt(row.body, following)):
                return False
        column, lane = Var("column"), Var("lane", next(vectors_in(own[0])).var.dtype)
        body = _with_one_row(task.body, own, column, lane)
        inside = {id(store) for row in own for store in stores_in(row)}
        if any(id(store) not in inside for store in stores_in(task.body)):
            return False
        outside = _with_one_row(task.body, own, None, lane)
        if any(task.var is v for s in walk(outside) for e in stmt_exprs(s) for v in free_vars(e)):
            return False
        found = [access for access in accesses(body) if access.buffer in all_written(body)]
        axes = {task.var: task.extent, column: own[0].extent, lane: lanes}
        return DependenceTest(axes, self.states).shared(found) is None

    def _is_row(self, loop: For, vectors: list[For]) -> bool:
        """Whether the elements of a loop are independent, and its vectors are parts of them."""
        step = {vector.var: binary("-", vector.var, vector.extent) for vector in vectors}
        following = {loop.var: binary("+", loop.var, const(1)), **step}
        if not _same(loop.body, substitute_stmt(loop.body, following)):
            return False
        lane = Var("lane", vectors[0].var.dtype)
        body = _with_one_lane(loop.body, lane)
        written = all_written(body)
        found = [access for access in accesses(body) if access.buffer in written]
        axes = {loop.var: loop.extent, lane: vectors[0].extent}
        return DependenceTest(axes, self.states).shared(found) is None


def _with_one_lane(stmt: Stmt, lane: Var) -> Stmt:
    """Return a statement without its loops over lanes, whose variables become one."""

    def inside(node: Stmt) -> Stmt | None:
        if isinstance(node, For) and node.kind is LoopKind.VECTORIZED:
            return substitute_stmt(node.body, {node.var: lane})
        return None

    return transform(stmt, before=inside)


def _with_one_row(stmt: Stmt, rows: list[For], column: Var | None, lane: Var) -> Stmt:
    """Return a statement without its loops over rows, whose variables become one.

    Their bodies are removed, too, if there is no such variable.
    """

    def inside(node: Stmt) -> Stmt | None:
        if not isinstance(node, For) or node not in rows:
            return None
        if column is None:
            return Seq(())
        return _with_one_lane(substitute_stmt(node.body, {node.var: column}), lane)

    return transform(stmt, before=inside)


def elements_of_line(buffer: Buffer) -> int:
    """Return the number of elements of an array in a cache line."""
    return LINE_BYTES // dtypes.itemsize(buffer.dtype)


def by_lines(index: Expr, lane: Var, elements: int) -> bool:
    """Whether an index is the lane plus whole cache lines."""
    terms = to_poly(index)
    return terms.pop((lane,), 0) == 1 and all(
        scale % elements == 0 and all(var is not lane for atom in atoms for var in free_vars(atom))
        for atoms, scale in terms.items()
    )


def vectors_in(stmt: Stmt) -> Iterator[For]:
    """Yield the loops over lanes in a statement."""
    for inner in walk(stmt):
        if isinstance(inner, For) and inner.kind is LoopKind.VECTORIZED:
            yield inner


def stores_in(stmt: Stmt) -> Iterator[Store]:
    """Yield the stores in a statement."""
    return (inner for inner in walk(stmt) if isinstance(inner, Store))


def _only_vectors(stmt: Stmt) -> bool:
    """Whether a statement consists of loops over the lanes of vectors only."""
    match stmt:
        case For(_, _, LoopKind.VECTORIZED, body):
            return all(isinstance(inner, (Store, If, Seq)) for inner in walk(body))
        case For(_, _, LoopKind.SERIAL | LoopKind.UNROLLED | LoopKind.UNROLL_HINTED, _):
            return all(map(_only_vectors, child_stmts(stmt)))
        case Seq() | If():
            return all(map(_only_vectors, child_stmts(stmt)))
        case _:
            return False


def _same(a: Stmt, b: Stmt) -> bool:
    """Whether two statements that differ only in their expressions are equivalent."""
    return all(x is y for x, y in zip(_exprs(a), _exprs(b), strict=True))


def _exprs(stmt: Stmt) -> list[Expr]:
    """Return the expressions of a statement, in order, each simplified."""
    simple = Simplifier().stmt(stmt)
    return [expr for inner in walk(simple) for expr in stmt_exprs(inner)]
