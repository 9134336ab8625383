"""Accesses to storage: the elements, and the steps of scans, that a statement reads and writes."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, replace

from autotune.ir.algebra.polynomials import Poly, add, joined, split_multiple, to_expr, to_poly
from autotune.ir.algebra.simplify_stmt import Simplifier
from autotune.ir.expr import Buffer, Const, Expr, Load, Ramp, Var
from autotune.ir.ops import binary, const
from autotune.ir.stmt import For, If, Stmt, Store
from autotune.ir.visitor import child_stmts, free_vars, loads, substitute, walk_expr


@dataclass(frozen=True)
class Access:
    """One read or write of shared storage, by all threads that execute it."""

    #: The accessed buffer.
    buffer: Buffer
    #: Index of the element; a vector for several elements.
    index: Expr
    #: Whether it is written.
    writes: bool
    #: Conditions that hold for a thread that executes it.
    conditions: tuple[Expr, ...] = ()
    #: Enclosing loops, with their extents, of which it may be in any iteration.
    free: tuple[tuple[Var, Expr], ...] = ()

    def where(self, condition: Expr) -> Access:
        """Return the access under a further condition."""
        return replace(self, conditions=(*self.conditions, condition))

    def anywhere_in(self, var: Var, extent: Expr) -> Access:
        """Return the access in any iteration of a loop around it."""
        return replace(self, free=(*self.free, (var, extent)))

    def at(self, var: Var, value: Expr) -> Access:
        """Return the access with a variable replaced."""
        mapping = {var: value}
        return replace(
            self,
            index=substitute(self.index, mapping),
            conditions=tuple(substitute(c, mapping) for c in self.conditions),
            free=tuple((own, substitute(extent, mapping)) for own, extent in self.free),
        )


def in_one_step(a: Access, b: Access, own: Set[Var]) -> tuple[Access, Access] | None:
    """Return two accesses without their common step; None if their steps differ.

    An index is a step times the elements of a step, plus non-negative terms whose sum is less than
    the elements of a step.

    `a`, `b`: accesses to one array, whose first dimension is the steps.
    `own`: variables that may differ between both.
    """
    (row, column), (other_row, other_column) = map(_row_and_column, (a, b))
    away = add(row, other_row, -1)
    own = {*own, *(var for var, _ in (*a.free, *b.free))}
    if (
        away
        and not set(away) - {()}
        and all(own.isdisjoint(free_vars(atom)) for term in (*row, *other_row) for atom in term)
    ):
        return None
    return replace(a, index=column), replace(b, index=other_column)


def _row_and_column(access: Access) -> tuple[Poly, Expr]:
    """Return the step of an access to an array with steps, and its index within the step."""
    strides: list[Expr] = [const(1)]
    for extent in reversed(access.buffer.shape[1:]):
        strides.insert(0, binary("*", strides[0], extent))
    length, index = strides[0], access.index
    if access.buffer.strides is not None:  # different elements never conflict, for any layout
        index = substitute(index, dict(zip(access.buffer.strides, strides, strict=True)))
    base = index.base if isinstance(index, Ramp) else index
    row, rest = split_multiple(joined(to_poly(base)), to_poly(length))
    if isinstance(length, Const) and length.value > 0 and () in rest:
        # The remaining constant may contain steps and columns, for example after a loop of one step
        # was removed.
        steps, rest[()] = divmod(rest[()], int(length.value))
        row = add(row, {(): steps} if steps else {}, 1)
    column = to_expr(rest, base.dtype)
    return row, Ramp(column, index.stride, index.lanes) if isinstance(index, Ramp) else column


def linear_in(var: Var | None, access: Access, known: Simplifier) -> tuple[Poly, int]:
    """Return the index of an access without multiples of a variable, and their factor.

    Loops inside have variables of their own, whose ranges are added to what is known.
    """
    own = {inner: Var(inner.name, inner.dtype) for inner, _ in access.free}
    rest = to_poly(substitute(access.index, own))
    for inner, extent in access.free:
        known.bind(own[inner], 0, max(0.0, known.bounds(substitute(extent, own))[1] - 1))
    return rest, 0 if var is None else rest.pop((var,), 0)


def varies(poly: Poly, var: Var) -> bool:
    """Whether an atom of a polynomial may have different values in iterations of a loop."""
    nodes = (node for term in poly for atom in term for node in walk_expr(atom))
    return any(node is var or isinstance(node, Load) for node in nodes)


def accesses(stmt: Stmt, around: Access | None = None) -> Iterator[Access]:
    """Yield the reads and writes of a statement, with the loops and conditions around each."""
    nothing = Access(Buffer("", "int32", ()), const(0), False)
    around = around or nothing
    for load in loads(stmt):
        yield replace(around, buffer=load.buffer, index=load.index)
    match stmt:
        case Store(buffer, index, _):
            yield replace(around, buffer=buffer, index=index, writes=True)
        case For(var, extent, _, body):
            yield from accesses(body, around.anywhere_in(var, extent))
        case If(condition, then, orelse):
            yield from accesses(then, around.where(condition))
            if orelse is not None:
                yield from accesses(orelse, around)
        case _:
            for child in child_stmts(stmt):
                yield from accesses(child, around)
