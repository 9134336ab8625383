"""Software pipelining: loads data of the next iteration into registers early and stores it late.

    for k in 8:                              for k in 8:
      if k + 1 < 8:                            if k + 1 < 8:
        S[(k + 1) % 2] = A[k + 1]      ->        R = A[k + 1]
      use(S[k % 2])                            use(S[k % 2])
                                               if k + 1 < 8:
                                                 S[(k + 1) % 2] = R

A store waits for its loads, and later statements wait for the store, so without this pass the loads
do not overlap the use of the present elements. The halves of S differ, so the stores may come after
the use. One barrier per iteration is then enough. Asynchronous copies need no R: they start before
the use, and the wait comes after it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from autotune.ir.expr import Buffer, Const, Expr, Load, Ramp
from autotune.ir.name_supply import NameSupply
from autotune.ir.ops import binary, const
from autotune.ir.stmt import (
    Arrive,
    CopyAhead,
    For,
    If,
    LoopKind,
    PrimFunc,
    Seq,
    Stmt,
    Store,
    allocated,
    seq,
    split_allocations,
)
from autotune.ir.visitor import StmtRewriter, all_loads, all_written, transform, walk
from autotune.lowering.nest.double_buffering import together

_IN_ORDER = (LoopKind.SERIAL, LoopKind.UNROLLED, LoopKind.UNROLL_HINTED)


def pipeline_loads(function: PrimFunc) -> PrimFunc:
    """Return the function with loads for the next iteration overlapping the present one.

    Buffers that are loaded ahead are stored after the use; the copies to buffers that are copied
    ahead are started before it and arrive after it.

    `function`: nests of loops over blocks and threads; vectors are explicit. Only copies with known
    extents from memory that the function does not write are moved.
    """
    if not function.info.loaded_ahead and not function.info.copied_ahead:
        return function
    loops = _Loops(function)
    result = function.with_body(loops.stmt(function.body))
    return replace(result, info=replace(result.info, waiting=frozenset(loops.waiting)))


class _Loops(StmtRewriter):
    """Finds the loops in which marked buffers are filled for the next iteration."""

    def __init__(self, function: PrimFunc) -> None:
        super().__init__()
        self.copied = function.info.copied_ahead
        self.marked = function.info.loaded_ahead | self.copied
        self.names = NameSupply.of_buffers(function)
        self.given = set(function.params) - function.outputs
        self.waiting: set[str] = set()

    def visit_For(self, node: For) -> Stmt:
        loop = self.rebuild_stmt(node)
        assert isinstance(loop, For)
        if loop.kind not in _IN_ORDER:
            return loop
        around, inner = split_allocations(loop.body)
        parts = list(_parts(inner))
        fetched = [part for part in parts if self._is_fetch(part)]
        others = [all_written(part) for part in parts if not any(part is f for f in fetched)]
        # What a loop inside fills further is needed in that loop, in this iteration.
        fetched = [f for f in fetched if all(all_written(f).isdisjoint(w) for w in others)]
        if not fetched or len(fetched) == len(parts):
            return loop
        copies = [part for part in fetched if self._is_copied(part)]
        copied = together(seq(*copies))
        registers: list[Buffer] = []
        early: list[Stmt] = [CopyAhead(copied)] if copies else []
        late: list[Stmt] = [Arrive(copied)] if copies else []
        for part in fetched:
            if self._is_copied(part):
                continue
            cut = _Cut(self.names, part)
            registers += cut.registers
            self.waiting.update(buffer.name for buffer in cut.registers)
            early.append(cut.loads)
            late.append(cut.stores)
        used = [part for part in parts if not any(part is other for other in fetched)]
        body = allocated(around, seq(together(seq(*early)), *used, together(seq(*late))))
        return allocated(registers[::-1], loop.with_body(body))

    def _is_copied(self, part: Stmt) -> bool:
        return all(buffer.name in self.copied for buffer in all_written(part))

    def _is_fetch(self, part: Stmt) -> bool:
        """Whether a statement only fills marked buffers from memory that is not written."""
        stored = all_written(part)
        if not stored or any(buffer.name not in self.marked for buffer in stored):
            return False
        return all(
            isinstance(stmt, (Store, If, Seq))
            or (isinstance(stmt, For) and isinstance(stmt.extent, Const))
            for stmt in walk(part)
        ) and all(load.buffer in self.given for load in all_loads(part))


def _parts(body: Stmt) -> Iterator[Stmt]:
    """Yield the statements of a loop; statements under a common guard each get the guard."""
    match body:
        case Seq(stmts):
            for stmt in stmts:
                yield from _parts(stmt)
        case If(condition, Seq(stmts), None):
            yield from (If(condition, stmt) for stmt in stmts)
        case _:
            yield body


def _one_place(stmt: Stmt) -> Store | None:
    """Return a store if each path through a statement stores once, all to the same element."""
    match stmt:
        case Store():
            return stmt
        case If(_, then, Stmt() as orelse):
            a, b = _one_place(then), _one_place(orelse)
            if a is not None and b is not None and a.buffer is b.buffer and a.index is b.index:
                return a
    return None


class _Cut:
    """A statement that fills buffers, split into loads into registers and stores from them.

    `registers`: local buffers to allocate around both, one for each store in the text.
    """

    def __init__(self, names: NameSupply, part: Stmt) -> None:
        self.names = names
        self.registers: list[Buffer] = []
        self.loads, self.stores = self._cut(part, ())

    def _cut(self, stmt: Stmt, loops: tuple[For, ...]) -> tuple[Stmt, Stmt]:
        match stmt:
            case Store():
                return self._store(stmt, loops)
            case For(var, extent, kind, body, tag):
                loads, stores = self._cut(body, (*loops, stmt))
                return For(var, extent, kind, loads, tag), For(var, extent, kind, stores, tag)
            case If() if (place := _one_place(stmt)) is not None:
                load, store = self._store(place, loops)

                def early(at: Stmt) -> Stmt | None:
                    return (
                        Store(load.buffer, load.index, at.value) if isinstance(at, Store) else None
                    )

                return transform(stmt, after=early), store
            case If(condition, then, orelse):
                loads, stores = self._cut(then, loops)
                others = (None, None) if orelse is None else self._cut(orelse, loops)
                return If(condition, loads, others[0]), If(condition, stores, others[1])
            case Seq(stmts):
                cut = [self._cut(inner, loops) for inner in stmts]
                return seq(*(loads for loads, _ in cut)), seq(*(stores for _, stores in cut))
            case _:
                raise TypeError(f"no part of a fetch: {type(stmt).__name__}")

    def _store(self, store: Store, loops: tuple[For, ...]) -> tuple[Store, Store]:
        lanes = store.index.lanes
        extents = [int(loop.extent.value) for loop in loops if isinstance(loop.extent, Const)]
        size = math.prod(extents) * lanes
        name = self.names.unused(f"{store.buffer.name}.next")
        registers = Buffer(name, store.buffer.dtype, (const(size),), "local")
        self.registers.append(registers)
        place: Expr = const(0)
        for loop in loops:
            place = binary("+", binary("*", place, loop.extent), loop.var)
        place = binary("*", place, lanes)
        if lanes > 1:
            place = Ramp(place, const(1, place.dtype), lanes)
        load = Load(registers, place)
        return Store(registers, place, store.value), Store(store.buffer, store.index, load)
