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

Addresses that need divisions, as those of windows do, and the conditions of such loads are computed
one iteration earlier still, between the operations of the use: then loads need not wait for them.

    for k in 8:                              at = f(1), ok = g(1)
      if k + 1 < 8:                          for k in 8:
        if g(k + 1):                           if k + 1 < 8:
          S[(k + 1) % 2] = A[f(k + 1)]           if ok:
      use(S[k % 2])                ->              R = A[at]
                                               use(S[k % 2])
                                               at = f(k + 2), ok = g(k + 2)
                                               if k + 1 < 8:
                                                 S[(k + 1) % 2] = R
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from autotune.ir import dtypes
from autotune.ir.algebra.simplify_stmt import Simplifier
from autotune.ir.expr import (
    BinaryOp,
    Broadcast,
    Buffer,
    Call,
    Const,
    Expr,
    Load,
    Ramp,
    Var,
    is_const,
)
from autotune.ir.name_supply import NameSupply
from autotune.ir.ops import binary, chain, const, if_then_else, row_major
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
from autotune.ir.visitor import (
    StmtRewriter,
    Substitution,
    all_loads,
    all_written,
    child_stmts,
    loads_in,
    mentions,
    transform,
    walk,
    walk_expr,
)
from autotune.lowering.nest.double_buffering import together

#: Elements of the largest array whose indices are kept in a register.
_MOST: Final = 1 << 31

#: Elements that are computed by the longest iterations that are written out in pairs.
_SHORT: Final = 400

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
    info = replace(
        result.info, waiting=frozenset(loops.waiting), in_pairs=frozenset(loops.in_pairs)
    )
    return replace(result, info=info)


class _Loops(StmtRewriter):
    """Finds the loops in which marked buffers are filled for the next iteration."""

    def __init__(self, function: PrimFunc) -> None:
        super().__init__()
        self.copied = function.info.copied_ahead
        self.marked = function.info.loaded_ahead | self.copied
        self.names = NameSupply.of_buffers(function)
        self.given = set(function.params) - function.outputs
        self.waiting: set[str] = set()
        self.in_pairs: set[Var] = set()

    def visit_For(self, node: For) -> Stmt:
        loop = self.rebuild_stmt(node)
        assert isinstance(loop, For)
        if loop.kind not in _IN_ORDER:
            return loop
        around, inner = split_allocations(loop.body)
        parts = list(_parts(inner))
        fetched = [part for part in parts if self._is_fetch(part, loop.var)]
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
        addresses: list[Stmt] = []
        for part in fetched:
            if self._is_copied(part):
                continue
            cut = _Cut(self.names, part, loop.var)
            registers += [*cut.registers, *cut.addressed]
            addresses += cut.addresses
            self.waiting.update(buffer.name for buffer in cut.registers)
            early.append(cut.loads)
            late.append(cut.stores)
        used = [part for part in parts if not any(part is other for other in fetched)]
        first, following = (
            [_Moved(loop.var, at).stmt(stmt) for stmt in addresses]
            for at in (const(0, loop.var.dtype), binary("+", loop.var, 1))
        )
        use = seq(*used, *following)
        if not addresses and _elements(use) <= _SHORT:
            self.in_pairs.add(loop.var)
        body = allocated(around, seq(together(seq(*early)), use, together(seq(*late))))
        return allocated(registers[::-1], seq(*first, loop.with_body(body)))

    def _is_copied(self, part: Stmt) -> bool:
        return all(buffer.name in self.copied for buffer in all_written(part))

    def _is_fetch(self, part: Stmt, var: Var) -> bool:
        """Whether a statement only fills marked buffers from memory that is not written.

        Iterations of the loop over a variable fill one half and the other in turns. If a loop of
        one iteration was removed, what it read is filled for the present iteration of this one.
        """
        stored = all_written(part)
        if not stored or any(buffer.name not in self.marked for buffer in stored):
            return False
        if any(isinstance(s, Store) and not mentions(s.index, var) for s in walk(part)):
            return False
        return all(
            isinstance(stmt, (Store, If, Seq))
            or (isinstance(stmt, For) and isinstance(stmt.extent, Const))
            for stmt in walk(part)
        ) and all(load.buffer in self.given for load in all_loads(part))


def _elements(stmt: Stmt) -> float:
    """Return how many elements a statement stores."""
    if isinstance(stmt, Store):
        return stmt.index.lanes
    total: float = sum(map(_elements, child_stmts(stmt)))
    if isinstance(stmt, For) and isinstance(stmt.extent, Const):
        total *= int(stmt.extent.value)
    return total


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


def _value(stmt: Stmt | None) -> Expr:
    """Return what a statement stores to its one place."""
    if isinstance(stmt, Store):
        return stmt.value
    assert isinstance(stmt, If)
    true, false = _value(stmt.then), _value(stmt.orelse)
    is_scalar = stmt.condition.lanes < true.lanes
    test = Broadcast(stmt.condition, true.lanes) if is_scalar else stmt.condition
    return if_then_else(test, true, false)


class _Cut:
    """A statement that fills buffers, split into loads into registers and stores from them.

    `var`: the variable of the loop in which it is filled.
    `registers`: local buffers to allocate around both, one for each store in the text.
    `addresses`: statements that compute costly addresses of the loads, into buffers `addressed`.
    """

    def __init__(self, names: NameSupply, part: Stmt, var: Var) -> None:
        self.names, self.var = names, var
        self.registers: list[Buffer] = []
        self.addressed: list[Buffer] = []
        self.addresses: list[Stmt] = []
        self.loads, self.stores = self._cut(part, ())

    def _cut(self, stmt: Stmt, loops: tuple[For, ...]) -> tuple[Stmt, Stmt]:
        match stmt:
            case Store():
                load, store = self._store(stmt, loops)
                return self._with_address(load, loops), store
            case For(var, extent, kind, body, tag):
                loads, stores = self._cut(body, (*loops, stmt))
                return For(var, extent, kind, loads, tag), For(var, extent, kind, stores, tag)
            case If() if (place := _one_place(stmt)) is not None:
                load, store = self._store(place, loops)
                known = self._with_address(Store(load.buffer, load.index, _value(stmt)), loops)
                if known.value is not _value(stmt):
                    return known, store

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
        name, dtype = f"{store.buffer.name}.next", store.buffer.dtype
        registers, place = self._local(name, dtype, loops, store.index.lanes)
        self.registers.append(registers)
        load = Load(registers, place)
        return Store(registers, place, store.value), Store(store.buffer, store.index, load)

    def _local(
        self, name: str, dtype: str, loops: tuple[For, ...], lanes: int
    ) -> tuple[Buffer, Expr]:
        """Return a buffer with elements for all iterations of loops, and the place of one's."""
        extents = [int(loop.extent.value) for loop in loops if isinstance(loop.extent, Const)]
        size = math.prod(extents) * lanes
        buffer = Buffer(self.names.unused(name), dtype, (const(size),), "local")
        place = row_major([loop.var for loop in loops], [loop.extent for loop in loops])
        place = binary("*", place, lanes)
        if lanes > 1:
            place = Ramp(place, const(1, place.dtype), lanes)
        return buffer, place

    def _with_address(self, store: Store, loops: tuple[For, ...]) -> Store:
        """Return a load into registers whose address and condition are known, if they are costly.

        They are computed by the statements `addresses`.
        """
        found = _guarded_load(store.value)
        if found is None or not any(map(self._is_costly, (*found.conditions, found.first))):
            return store
        stem, lanes = store.buffer.name.removesuffix(".next"), store.index.lanes
        elements = found.load.buffer.elements
        if elements is None or elements > _MOST or (lanes > 1 and not found.differs):
            return store  # vectors move as a whole only if their address can be seen
        at, place = self._local(f"{stem}.at", found.first.dtype, loops, found.first.lanes)
        known: Expr = Load(at, place)
        stored = [Store(at, place, found.first)]
        self.addressed.append(at)
        if known.lanes < lanes:
            known = Ramp(known, const(1, known.dtype), lanes)
        value: Expr = Load(found.load.buffer, known)
        if found.conditions:
            inside, places = self._local(f"{stem}.inside", dtypes.BOOL, loops, lanes)
            self.addressed.append(inside)
            holds = chain("and", found.conditions[1:], found.conditions[0])
            stored.append(Store(inside, places, holds))
            value = if_then_else(Load(inside, places), value, found.otherwise)
        for each in stored:
            body: Stmt = each
            for loop in reversed(loops):
                body = loop.with_body(body)
            self.addresses.append(body)
        return Store(store.buffer, store.index, value)

    def _is_costly(self, expr: Expr) -> bool:
        """Whether an expression divides what depends on the loop by more than shifts can."""
        return any(
            isinstance(node, BinaryOp)
            and node.op in ("//", "%")
            and not _is_power_of_two(node.b)
            and mentions(node.a, self.var)
            for node in walk_expr(expr)
        )


@dataclass(frozen=True, slots=True)
class _GuardedLoad:
    """A load under conditions, and the value without them."""

    load: Load
    #: Its index; of elements side by side that of the first one.
    first: Expr
    conditions: list[Expr]
    otherwise: Expr

    @property
    def differs(self) -> bool:
        """Whether conditions differ between lanes, which are loaded one by one then."""
        return any(isinstance(node, Ramp) for e in self.conditions for node in walk_expr(e))


def _guarded_load(value: Expr) -> _GuardedLoad | None:
    """Return a value as a load whose address depends on no memory; None if it is none."""
    conditions: list[Expr] = []
    otherwise = value
    while isinstance(value, Call) and value.name == "if_then_else":
        condition, value, other = value.children
        if conditions and other is not otherwise:
            return None
        conditions.append(condition)
        otherwise = other
    if not isinstance(value, Load) or any(map(loads_in, (*conditions, value.index))):
        return None
    if conditions and loads_in(otherwise):
        return None
    first = value.index
    if isinstance(first, Ramp) and is_const(first.stride, 1):
        first = first.base
    return _GuardedLoad(value, first, conditions, otherwise)


class _Moved(Substitution):
    """Rewrites the computation of addresses for another iteration of a loop."""

    def __init__(self, var: Var, at: Expr) -> None:
        super().__init__({var: at})
        self.simplifier = Simplifier()

    def visit_Store(self, node: Store) -> Stmt:
        """Simplify an address."""
        value = self.expr(node.value)
        return Store(node.buffer, node.index, self.simplifier.expr(value))


def _is_power_of_two(divisor: Expr) -> bool:
    number = divisor.value if isinstance(divisor, Broadcast) else divisor
    return isinstance(number, Const) and int(number.value).bit_count() == 1
