"""Text of one module: declarations, metadata, and the finished functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autotune.codegen.llvm.math import definitions
from autotune.ir.expr import Buffer, Expr, SizeVar, Var
from autotune.ir.stmt import Prefetch, Store

#: Number of the metadata node for unrolling; the nodes of the loops follow.
UNROLL_METADATA = 2


@dataclass
class ModuleText:
    """The shared parts of a module and the texts of its functions."""

    #: Text by symbol, for external functions and intrinsics.
    declarations: dict[str, str] = field(default_factory=dict)
    #: Math functions used: (name, dtype, lanes) by symbol.
    math: dict[str, tuple[str, str, int]] = field(default_factory=dict)
    #: Finished functions, helpers before their callers.
    functions: list[str] = field(default_factory=list)
    #: Whether any loop is parallel.
    uses_threads: bool = False
    #: Whether a branch refers to the weights !0.
    uses_hints: bool = False
    #: Metadata of loops that LLVM is to unroll, one node each.
    unrolled: list[str] = field(default_factory=list)
    #: Names of buffers whose vectors are stored past the caches (metadata !1).
    streamed: frozenset[str] = frozenset()
    #: What is prefetched with each loaded vector, by the name of the buffer.
    prefetches: Mapping[str, Prefetch] = field(default_factory=dict)
    #: The statements that prefetch into the nearest cache.
    busiest: frozenset[Store] = frozenset()
    #: Most threads that share a parallel loop, by its variable.
    num_threads: Mapping[Var, Expr] = field(default_factory=dict)
    #: Variables with the number of elements of an array before the first cache line.
    lines: Mapping[Buffer, SizeVar] = field(default_factory=dict)
    #: Whether float arithmetic may be rearranged.
    fast_math: bool = False
    #: Whether instructions of AVX-512 may be used.
    has_avx512: bool = False

    def unrolled_loop(self) -> str:
        """Return new metadata for unrolling a loop of constant length."""
        node = f"!{UNROLL_METADATA + 1 + len(self.unrolled)}"
        self.unrolled.append(f"{node} = distinct !{{{node}, !{UNROLL_METADATA}}}")
        return node

    def assemble(self) -> str:
        """Return the text of the module, with the math functions that it calls."""
        for used in self.math.values():
            self.declarations.update(definitions(*used, self.has_avx512))
        parts = [*self.declarations.values(), "", *self.functions]
        if self.uses_hints:
            parts.append('!0 = !{!"branch_weights", i32 2000, i32 1}')
        if self.streamed:
            parts.append("!1 = !{i32 1}")
        if self.unrolled:
            parts.append(f'!{UNROLL_METADATA} = !{{!"llvm.loop.unroll.full"}}')
            parts += self.unrolled
        return "\n".join(parts) + "\n"
