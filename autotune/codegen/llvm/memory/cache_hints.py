"""Cache hints: prefetches, and stores past the caches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autotune.codegen.llvm.function_builder import FunctionBuilder
from autotune.codegen.llvm.index.index_arithmetic import IndexArithmetic
from autotune.codegen.llvm.index.linear_forms import Linear, constant
from autotune.codegen.llvm.memory.addresses import ALIGNMENT, Addresses
from autotune.ir import dtypes
from autotune.ir.expr import Buffer, Expr
from autotune.ir.visitor import free_vars


@dataclass(eq=False, repr=False)
class CacheHints:
    """Writes prefetches and marks stores."""

    builder: FunctionBuilder
    index: IndexArithmetic
    addresses: Addresses
    #: Prefetch distance in elements behind each loaded vector, by the name of the buffer.
    ahead: Mapping[str, Expr]
    #: Names of buffers whose vectors are stored past the caches (metadata !1).
    streamed: frozenset[str]
    #: Whether anything was stored past the caches.
    streams: bool = field(init=False, default=False)

    def prefetch(self, buffer: Buffer, index: Linear, lanes: int) -> None:
        """Prefetch the cache lines at a distance behind consecutive elements of a buffer."""
        distance = self.ahead.get(buffer.name)
        if distance is None or lanes == 1:
            return
        if any(var not in self.index.env for var in free_vars(distance)):
            return
        away = self.index.form(distance)
        if away.is_const and not away.const:
            return
        size, name = dtypes.itemsize(buffer.dtype), "llvm.prefetch.p0"
        self.builder.declare(name, f"declare void @{name}(ptr, i32 immarg, i32 immarg, i32 immarg)")
        start = index + away
        for line in range(0, lanes, max(1, ALIGNMENT // size)):
            pointer = self.addresses.address(buffer, start + constant(line))
            # To be read (0), into the second level (2), data (1).
            self.builder.line(f"call void @{name}(ptr {pointer}, i32 0, i32 2, i32 1)")

    def store_metadata(self, buffer: Buffer, lanes: int) -> str:
        """Metadata of a store of `lanes` consecutive elements."""
        if buffer.name not in self.streamed or lanes == 1 or buffer.dtype == dtypes.BOOL:
            return ""
        self.streams = True
        return ", !nontemporal !1"
