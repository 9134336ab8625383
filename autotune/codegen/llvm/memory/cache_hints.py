"""Cache hints: prefetches, and stores past the caches."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from autotune.codegen.llvm.function_builder import FunctionBuilder
from autotune.codegen.llvm.index.index_arithmetic import IndexArithmetic
from autotune.codegen.llvm.index.linear_forms import Linear, constant
from autotune.codegen.llvm.memory.addresses import ALIGNMENT, Addresses
from autotune.ir import dtypes
from autotune.ir.expr import BinaryOp, Buffer, Call, Load
from autotune.ir.stmt import Prefetch, Stmt, Store
from autotune.ir.visitor import free_vars, walk, walk_expr

#: Operations that a call of a function is about as much work as.
_CALL = 10


def busiest_stores(body: Stmt, prefetches: Mapping[str, Prefetch]) -> frozenset[Store]:
    """Return of the statements that load each prefetched buffer those with most operations.

    What several statements load needs to be prefetched once, best where there is most to do.
    """
    found: dict[str, dict[Store, int]] = {}
    for store in walk(body):
        if isinstance(store, Store):
            nodes = list(walk_expr(store.value))
            work = sum(isinstance(n, BinaryOp) and dtypes.is_float(n.dtype) for n in nodes)
            work += _CALL * sum(isinstance(node, Call) for node in nodes)
            for name in {n.buffer.name for n in nodes if isinstance(n, Load)} & prefetches.keys():
                found.setdefault(name, {})[store] = work
    most = {name: max(own.values()) for name, own in found.items()}
    return frozenset(s for name, own in found.items() for s, n in own.items() if n == most[name])


@dataclass(eq=False, repr=False)
class CacheHints:
    """Writes prefetches and marks stores."""

    builder: FunctionBuilder
    index: IndexArithmetic
    addresses: Addresses
    #: What is prefetched with each loaded vector, by the name of the buffer.
    prefetches: Mapping[str, Prefetch]
    #: The statements that prefetch into the nearest cache.
    busiest: Set[Store]
    #: Names of buffers whose vectors are stored past the caches (metadata !1).
    streamed: frozenset[str]
    #: Whether anything was stored past the caches.
    streams: bool = field(init=False, default=False)
    #: The statement that is being written.
    statement: Store | None = field(init=False, default=None)

    def prefetch(self, buffer: Buffer, index: Linear, lanes: int) -> None:
        """Prefetch the cache lines at a distance behind consecutive elements of a buffer."""
        own = self.prefetches.get(buffer.name)
        if own is None or lanes == 1 or (own.level == 1 and self.statement not in self.busiest):
            return
        if any(var not in self.index.env for var in free_vars(own.distance)):
            return
        away = self.index.form(own.distance)
        if away.is_const and not away.const:
            return
        size, name = dtypes.itemsize(buffer.dtype), "llvm.prefetch.p0"
        self.builder.declare(name, f"declare void @{name}(ptr, i32 immarg, i32 immarg, i32 immarg)")
        start = index + away
        for line in range(0, lanes, max(1, ALIGNMENT // size)):
            pointer = self.addresses.address(buffer, start + constant(line))
            # To be read (0), into the nearest cache (3) or the second one (2), data (1).
            hint = f"i32 0, i32 {4 - own.level}, i32 1"
            self.builder.line(f"call void @{name}(ptr {pointer}, {hint})")

    def store_metadata(self, buffer: Buffer, lanes: int) -> str:
        """Metadata of a store of `lanes` consecutive elements."""
        if buffer.name not in self.streamed or lanes == 1 or buffer.dtype == dtypes.BOOL:
            return ""
        self.streams = True
        return ", !nontemporal !1"
