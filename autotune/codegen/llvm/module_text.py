"""Text of one module: declarations, metadata, and the finished functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autotune.codegen.llvm.math import definitions
from autotune.ir.expr import Buffer, Expr, SizeVar

#: Number of the metadata node for unrolling; the nodes of the loops follow.
UNROLL_METADATA = 2


@dataclass
class ModuleText:
    """The shared parts of a module and the texts of its functions.

    Attributes
    ----------
    declarations : dict
        Text by symbol, for external functions and intrinsics.
    math : dict
        Math functions used: (name, dtype, lanes) by symbol.
    functions : list of str
        Finished functions, helpers before their callers.
    uses_threads : bool
        Whether any loop is parallel.
    uses_hints : bool
        Whether a branch refers to the weights !0.
    unrolled : list of str
        Metadata of loops that LLVM is to unroll, one node each.
    streamed : frozenset of str
        Names of buffers whose vectors are stored past the caches (metadata !1).
    ahead : mapping of str to Expr
        Prefetch distance in elements behind each loaded vector, by the name of the buffer.
    lines : dict of Buffer to SizeVar
        Variables with the number of elements of an array before the first cache line.
    fast_math : bool
        Whether float arithmetic may be rearranged.
    has_ldexp : bool
        Whether the processor multiplies vectors by powers of two in one instruction.
    """

    declarations: dict[str, str] = field(default_factory=dict)
    math: dict[str, tuple[str, str, int]] = field(default_factory=dict)
    functions: list[str] = field(default_factory=list)
    uses_threads: bool = False
    uses_hints: bool = False
    unrolled: list[str] = field(default_factory=list)
    streamed: frozenset[str] = frozenset()
    ahead: Mapping[str, Expr] = field(default_factory=dict)
    lines: Mapping[Buffer, SizeVar] = field(default_factory=dict)
    fast_math: bool = False
    has_ldexp: bool = False

    def unrolled_loop(self) -> str:
        """Return new metadata for unrolling a loop of constant length."""
        node = f"!{UNROLL_METADATA + 1 + len(self.unrolled)}"
        self.unrolled.append(f"{node} = distinct !{{{node}, !{UNROLL_METADATA}}}")
        return node

    def assemble(self) -> str:
        """Return the text of the module, with the math functions that it calls."""
        for used in self.math.values():
            self.declarations.update(definitions(*used, self.has_ldexp))
        parts = [*self.declarations.values(), "", *self.functions]
        if self.uses_hints:
            parts.append('!0 = !{!"branch_weights", i32 2000, i32 1}')
        if self.streamed:
            parts.append("!1 = !{i32 1}")
        if self.unrolled:
            parts.append(f'!{UNROLL_METADATA} = !{{!"llvm.loop.unroll.full"}}')
            parts += self.unrolled
        return "\n".join(parts) + "\n"
