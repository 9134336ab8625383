"""Output storage: a temporary shares the memory of an output.

Each of its elements is last read where that element of the output is written.

::

    allocate E                               for (j) Y[i*n + j] = f(X[i*n + j])
    for (j) E[j] = f(X[i*n + j])             s = g(Y[i*n ...])
    s = g(E)                         ->      for (j) Y[i*n + j] = Y[i*n + j] * s
    for (j) Y[i*n + j] = E[j] * s

This takes less of the caches.
"""

from __future__ import annotations

from collections.abc import Mapping

from autotune.ir.algebra.polynomials import add, split_multiple, to_expr, to_poly
from autotune.ir.algebra.simplify_stmt import Simplifier
from autotune.ir.expr import Buffer, Const, Expr, Var
from autotune.ir.ops import binary
from autotune.ir.stmt import Allocate, For, PrimFunc, Seq, Stmt, Store
from autotune.ir.visitor import (
    AccessRewriter,
    StmtRewriter,
    accessed,
    all_loads,
    all_written,
    free_vars,
    loads,
    walk,
)
from autotune.lowering.dependence.accesses import Access, accesses
from autotune.lowering.dependence.dependence_test import DependenceTest
from autotune.lowering.storage_rewrite import elements, is_large


def store_in_outputs(function: PrimFunc) -> PrimFunc:
    """Return the function with temporaries in the outputs that their elements become.

    The output is written by one store only, and never read. The store reads each element of the
    temporary once, at the same place in its row, and nothing reads it later. Arrays that may become
    registers stay, and so do those whose outputs are stored past the caches.
    """
    stores: dict[Buffer, list[Store]] = {}
    found = list(walk(function.body))
    if not any(isinstance(stmt, Allocate) and is_large(stmt.buffer) for stmt in found):
        return function
    for stmt in found:
        if isinstance(stmt, Store) and stmt.buffer in function.outputs:
            stores.setdefault(stmt.buffer, []).append(stmt)
    apart = function.info.nontemporal.union(function.info.scan_states)
    read = {load.buffer for stmt in found for load in loads(stmt)}
    single = [
        of_one[0]
        for output, of_one in stores.items()
        if len(of_one) == 1 and output.name not in apart and output not in read
    ]
    return function.with_body(_OutputStorage(single).stmt(function.body)) if single else function


class _OutputStorage(StmtRewriter):
    def __init__(self, stores: list[Store]) -> None:
        super().__init__()
        self.stores = stores
        self.loops: dict[Var, Expr] = {}

    def visit_For(self, node: For) -> Stmt:
        self.loops[node.var] = node.extent
        result = self.rebuild_stmt(node)
        del self.loops[node.var]
        return result

    def visit_Allocate(self, node: Allocate) -> Stmt:
        found = self._row(node) if is_large(node.buffer) else None
        if found is None:
            return self.rebuild_stmt(node)
        store, begin = found
        self.stores.remove(store)  # the output is read now

        def place(buffer: Buffer, index: Expr) -> tuple[Buffer, Expr]:
            if buffer is not node.buffer:
                return buffer, index
            return store.buffer, Simplifier().expr(binary("+", begin, index))

        return self.stmt(AccessRewriter(place).stmt(node.body))

    def _row(self, node: Allocate) -> tuple[Store, Expr] | None:
        """Return the store that a temporary is last read in, and where it begins in the output."""
        loops, last = _last_use(node.body, node.buffer)
        inside = set(walk(last))
        store = next((s for s in self.stores if s in inside), None)
        if store is None or store.buffer.dtype != node.buffer.dtype:
            return None
        own = {load.index for load in all_loads(last) if load.buffer is node.buffer}
        if len(own) != 1 or node.buffer in all_written(last):
            return None
        (element,) = own
        begin = to_expr(add(to_poly(store.index), to_poly(element), -1))
        inner = {s.var: s.extent for s in walk(last) if isinstance(s, For)}
        if any(var in inner for var in free_vars(begin)):
            return None
        size, at = elements(node.buffer), Var("at", begin.dtype)
        row = Access(store.buffer, binary("+", begin, at), True, (), ((at, size),))
        fits = (
            _is_inside(begin, size, store.buffer)
            and _is_guarded(node, store, inner)
            and _are_apart({**self.loops, **loops}, row)
            and _are_apart(inner, Access(node.buffer, element, True))
        )
        return (store, begin) if fits else None


def _is_inside(begin: Expr, size: Expr, output: Buffer) -> bool:
    """Whether elements from some place on are in one row of an output, if the first ones are."""
    row, length = 1, int(size.value) if isinstance(size, Const) else None
    for extent in reversed(output.shape):
        if length is None or not isinstance(extent, Const):
            return False
        row *= int(extent.value)
        _, rest = split_multiple(to_poly(begin), {(): row})
        if not set(rest) - {()} and 0 <= rest.get((), 0) <= row - length:
            return True
    return False


def _is_guarded(node: Allocate, store: Store, inner: Mapping[Var, Expr]) -> bool:
    """Whether a temporary is written only where outputs are, as far as loops around them say.

    `inner`: the loops of the store that are not around the temporary.
    """
    found = list(accesses(node.body))
    (conditions,) = (set(a.conditions) for a in found if a.writes and a.buffer is store.buffer)
    outer = {c for c in conditions if not any(var in inner for var in free_vars(c))}
    if any(var not in inner for c in conditions - outer for var in free_vars(c)):
        return False
    return all(outer <= {*a.conditions} for a in found if a.writes and a.buffer is node.buffer)


def _last_use(stmt: Stmt, buffer: Buffer) -> tuple[dict[Var, Expr], Stmt]:
    """Return the last of several statements that use a buffer, and the loops around all of them."""
    loops: dict[Var, Expr] = {}
    is_one = True
    while isinstance(stmt, (Seq, Allocate)) or (isinstance(stmt, For) and is_one):
        if isinstance(stmt, Seq):
            last_first = reversed(stmt.stmts)
            using = (s for s in last_first if any(buffer in accessed(x) for x in walk(s)))
            stmt = next(using)
            is_one = is_one and next(using, None) is None
        else:
            if isinstance(stmt, For):
                loops[stmt.var] = stmt.extent
            stmt = stmt.body
    return loops, stmt


def _are_apart(loops: Mapping[Var, Expr], access: Access) -> bool:
    """Whether the iterations of some loops access different elements."""
    return DependenceTest(loops, {}).shared([access]) is None
