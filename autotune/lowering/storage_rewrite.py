"""Storage rewrite: one allocation per region; temporaries share it where lifetimes do not overlap.

    allocate A                           allocate A
    A = f(input)                         A = f(input)
    allocate B                           allocate B
    B = g(A)                     ->      B = g(A)
    allocate C                           A = h(B)
    C = h(B)                             output = k(A)
    output = k(C)

A region is the function, or the body of a parallel or thread loop: each iteration has its own
temporaries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations

from autotune.ir import dtypes
from autotune.ir.algebra.simplify_stmt import Simplifier
from autotune.ir.expr import Buffer, Expr, SizeVar
from autotune.ir.ops import chain
from autotune.ir.stmt import Allocate, For, LoopKind, PrimFunc, Stmt, allocated
from autotune.ir.visitor import AccessRewriter, accessed, child_stmts, free_vars, transform

#: Arrays of up to this many bytes may become registers, which sharing would prevent.
REGISTER_BYTES = 2048

_REGIONS = (LoopKind.PARALLEL, LoopKind.VECTORIZED, LoopKind.THREAD, LoopKind.VTHREAD)


def share_storage(function: PrimFunc) -> PrimFunc:
    """Return the function with its allocations at the start of regions, and fewer of them.

    Temporaries share storage if they have one type and scope, and the last read of one comes before
    the first write of the other. Shared storage is as large as the largest of them.
    """
    info = function.info
    apart = info.nontemporal.union(info.scan_states, info.loaded_ahead, info.copied_ahead)
    return function.with_body(_Regions(apart).region(function.body))


@dataclass
class Lifetime:
    """The statements between which a temporary is in use, numbered in textual order."""

    #: The temporary.
    buffer: Buffer
    #: Number of loops of the region around its allocation.
    loops: int
    #: Numbers of the statements; loops inside the allocation count as a whole.
    first: int = -1
    last: int = -1

    def use(self, first: int, last: int) -> None:
        """Extend the lifetime."""
        self.first = first if self.first < 0 else min(self.first, first)
        self.last = max(self.last, last)


@dataclass
class Slot:
    """Storage that several temporaries use one after the other."""

    members: list[Lifetime] = field(default_factory=list)

    @property
    def last(self) -> int:
        """Number of the last statement that uses it."""
        return max(member.last for member in self.members)

    def buffer(self, simplifier: Simplifier) -> Buffer:
        """Return one buffer for all."""
        first, *others = (member.buffer for member in self.members)
        total = chain("max", map(elements, others), elements(first))
        return Buffer(first.name, first.dtype, (simplifier.expr(total),), first.scope)


def elements(buffer: Buffer) -> Expr:
    """Return the number of elements of a buffer."""
    return chain("*", buffer.shape, 1)


class _Regions:
    def __init__(self, apart: frozenset[str]) -> None:
        self.apart = apart
        self.simplifier = Simplifier()

    def region(self, body: Stmt) -> Stmt:
        """Return the body of a region with its allocations outermost, some of them shared."""

        def of_loop(node: Stmt) -> Stmt | None:
            if isinstance(node, For) and node.kind in _REGIONS:
                return node.with_body(self.region(node.body))
            return None

        inner = transform(body, before=of_loop)
        own = [buffer for buffer in _allocated(inner) if _is_free(buffer)]
        if not own:
            return inner

        def without_own(node: Stmt) -> Stmt | None:
            return node.body if isinstance(node, Allocate) and node.buffer in own else None

        result = transform(inner, after=without_own)
        if any(self._may_share(a, b) for a, b in combinations(own, 2)):
            shared = self._shared(inner)
            result = moved(result, shared) if shared else result
            own = list(dict.fromkeys(shared.get(buffer, buffer) for buffer in own))
        return allocated(own, result)

    def _shared(self, body: Stmt) -> dict[Buffer, Buffer]:
        """Return the replacements of the temporaries that share storage."""
        shared = {}
        for slot in self._slots(_Lifetimes(body).found.values()):
            if len(slot.members) > 1:
                buffer = slot.buffer(self.simplifier)
                shared.update({member.buffer: buffer for member in slot.members})
        return shared

    def _slots(self, lifetimes: Iterable[Lifetime]) -> list[Slot]:
        """Give each temporary, in order of first use, the free storage that fits it best."""
        slots: list[Slot] = []
        for lifetime in sorted(lifetimes, key=lambda one: one.first):
            free = [
                slot
                for slot in slots
                if slot.last < lifetime.first
                and self._may_share(slot.members[0].buffer, lifetime.buffer)
            ]
            if free:
                wanted = _constant_size(lifetime.buffer)
                min(free, key=lambda slot: _misfit(slot, wanted)).members.append(lifetime)
            else:
                slots.append(Slot([lifetime]))
        return slots

    def _may_share(self, a: Buffer, b: Buffer) -> bool:
        return (
            a.dtype == b.dtype
            and a.scope == b.scope
            and all(is_large(buffer) and buffer.name not in self.apart for buffer in (a, b))
        )


def _constant_size(buffer: Buffer) -> int | None:
    """Return the size in bytes, None if it is known at run time only."""
    return None if buffer.elements is None else buffer.elements * dtypes.itemsize(buffer.dtype)


def is_large(buffer: Buffer) -> bool:
    """Whether a buffer cannot become registers."""
    size = _constant_size(buffer)
    return size is None or size > REGISTER_BYTES


def _misfit(slot: Slot, wanted: int | None) -> float:
    """Return an upper bound of the difference of the sizes in bytes."""
    sizes = [_constant_size(member.buffer) for member in slot.members]
    if wanted is None or any(size is None for size in sizes):
        return float("inf")
    return float(abs(wanted - max(size for size in sizes if size is not None)))


class _Lifetimes:
    """Finds the temporaries of a region and numbers the statements that use them."""

    def __init__(self, body: Stmt) -> None:
        #: The temporaries that can be allocated at the start of the region.
        self.found: dict[Buffer, Lifetime] = {}
        self._number = 0
        self._uses: list[tuple[Lifetime, list[int]]] = []
        self._visit(body, (), True)
        for lifetime, (first, last) in self._uses:
            lifetime.use(first, last)

    def _visit(self, stmt: Stmt, loops: tuple[list[int], ...], is_own: bool) -> None:
        """Count a statement inside loops, which are given by their first and last number."""
        self._number += 1
        if isinstance(stmt, Allocate) and is_own and _is_free(stmt.buffer):
            self.found[stmt.buffer] = Lifetime(stmt.buffer, len(loops))
        for buffer in accessed(stmt):
            lifetime = self.found.get(buffer)
            if lifetime is not None:
                around = loops[lifetime.loops :]
                self._uses.append((lifetime, around[0] if around else [self._number] * 2))
        span = [self._number, self._number]
        if isinstance(stmt, For):
            loops = (*loops, span)
            is_own = is_own and stmt.kind not in _REGIONS
        for child in child_stmts(stmt):
            self._visit(child, loops, is_own)
        span[1] = self._number


def _allocated(stmt: Stmt) -> Iterator[Buffer]:
    """Yield the temporaries of a region in textual order, without those of regions inside."""
    if isinstance(stmt, Allocate):
        yield stmt.buffer
    if not (isinstance(stmt, For) and stmt.kind in _REGIONS):
        for child in child_stmts(stmt):
            yield from _allocated(child)


def _is_free(buffer: Buffer) -> bool:
    """Whether the size of a buffer is the same throughout the function."""
    return all(isinstance(var, SizeVar) for extent in buffer.shape for var in free_vars(extent))


def moved(stmt: Stmt, buffers: Mapping[Buffer, Buffer]) -> Stmt:
    """Return a statement that loads and stores in other buffers."""
    return AccessRewriter(lambda buffer, index: (buffers.get(buffer, buffer), index)).stmt(stmt)
