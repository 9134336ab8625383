"""Finds loops over vectors that can begin at cache lines of the arrays that they write.

See `alignment_peeling`, which moves them there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from autotune.ir import dtypes
from autotune.ir.algebra.polynomials import Poly, to_expr, to_poly
from autotune.ir.algebra.simplify_stmt import Simplifier
from autotune.ir.expr import Buffer, Const, Expr, Var
from autotune.ir.ops import binary, cast, const
from autotune.ir.stmt import For, If, LoopKind, Seq, Stmt, Store, split_guards, under_guards
from autotune.ir.visitor import (
    all_written,
    child_stmts,
    mentions,
    stmt_exprs,
    substitute_stmt,
    transform,
    walk,
)
from autotune.lowering.dependence.accesses import accesses
from autotune.lowering.dependence.dependence_test import DependenceTest
from autotune.lowering.guards.facts import conjuncts, excess

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
        if any(vector.extent is not lanes for vector in vectors):
            return None
        place = place_in_line(loop, goal)
        if place is None or (place and goal.name in self.states):  # steps follow each other
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
            or place_in_line(row, rows[row])  # elements would move to another task in each row
            for row in own
        ):
            return False
        length = binary("*", own[0].extent, lanes)
        for row in own:
            step = {v.var: cast(v.var.dtype, binary("-", v.var, length)) for v in vectors_in(row)}
            following = {task.var: binary("+", task.var, const(1)), **step}
            if not _same(row.body, substitute_stmt(row.body, following)):
                return False
        column, lane = Var("column"), Var("lane", next(vectors_in(own[0])).var.dtype)
        body = _with_one_row(task.body, own, column, lane)
        inside = {id(store) for row in own for store in stores_in(row)}
        if any(id(store) not in inside for store in stores_in(task.body)):
            return False
        outside = _with_one_row(task.body, own, None, lane)
        if any(mentions(e, task.var) for s in walk(outside) for e in stmt_exprs(s)):
            return False
        found = [access for access in accesses(body) if access.buffer in all_written(body)]
        axes = {task.var: task.extent, column: own[0].extent, lane: lanes}
        return DependenceTest(axes, self.states).shared(found) is None

    def _is_row(self, loop: For, vectors: list[For]) -> bool:
        """Whether the elements of a loop are independent, and its vectors are parts of them."""
        step = {v.var: cast(v.var.dtype, binary("-", v.var, v.extent)) for v in vectors}
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


def place_in_line(loop: For, goal: Buffer) -> Poly | None:
    """Return the place in its cache line of the first element that a loop over vectors stores.

    It counts from any cache line. It is None if vectors are not whole lines that follow each other.
    """
    first, *others = [
        _beyond_lines(store.index, vector.var, elements_of_line(goal))
        for vector in vectors_in(loop.body)
        for store in stores_in(vector)
        if store.buffer is goal
    ]
    if first is None or any(place != first for place in others):
        return None
    if any(_mentions(first, stmt.var) for stmt in walk(loop) if isinstance(stmt, For)):
        return None
    return first


def by_lines(index: Expr, lane: Var, elements: int) -> bool:
    """Whether an index is the lane plus whole cache lines."""
    return _beyond_lines(index, lane, elements) == {}


def _beyond_lines(index: Expr, lane: Var, elements: int) -> Poly | None:
    """Return an index without its lane and whole cache lines; None if lanes are not neighbours."""
    terms = to_poly(index)
    if terms.pop((lane,), 0) != 1 or _mentions(terms, lane):
        return None
    return {atoms: scale % elements for atoms, scale in terms.items() if scale % elements}


def _mentions(terms: Poly, var: Var) -> bool:
    return any(mentions(atom, var) for atoms in terms for atom in atoms)


def limited(loop: For) -> tuple[For, Expr | None]:
    """Return a loop over vectors without the guard of its last elements, and their number.

    ::

        for (i, 0, 8)                             for (i, 0, 8)
          vectorized (j, 0, 16)           ->        vectorized (j, 0, 16)       number: n - k
            if k + i*16 + j < n: ...                  ...
    """
    vector = loop.body
    if not isinstance(vector, For) or not isinstance(vector.extent, Const):
        return loop, None
    guards, inner = split_guards(vector.body)
    number: Expr | None = None
    kept: list[Expr] = []
    for guard in guards:
        for part in conjuncts(guard):
            terms = to_poly(over) if (over := excess(part)) is not None else {}
            along = terms.pop((vector.var,), 0), terms.pop((loop.var,), 0)
            if along != (1, vector.extent.value) or any(
                _mentions(terms, var) for var in (loop.var, vector.var)
            ):
                kept.append(part)
            else:
                left = binary("-", const(1), to_expr(terms))
                number = left if number is None else binary("min", number, left)
    return loop.with_body(vector.with_body(under_guards(kept, inner))), number


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
