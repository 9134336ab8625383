"""What the functions of one module share: declarations, metadata, and the texts that are done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autotune.codegen.llvm.math import definitions
from autotune.ir.expr import Buffer, Expr, SizeVar

#: Number of the metadata node that tells LLVM to unroll a loop; those of the loops follow.
UNROLL_METADATA = 2


@dataclass
class ModuleText:
    """What the functions of a module share, and their texts.

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
        Names of buffers, and how many elements behind each vector that is read of them is fetched.
    lines : dict of Buffer to SizeVar
        Those for which it is known how many elements are before one that begins a cache line.
    fast_math : bool
        Whether float arithmetic may be rearranged.
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

    def unrolled_loop(self) -> str:
        """Return new metadata of a loop that LLVM is to unroll, whose length is constant."""
        node = f"!{UNROLL_METADATA + 1 + len(self.unrolled)}"
        self.unrolled.append(f"{node} = distinct !{{{node}, !{UNROLL_METADATA}}}")
        return node

    def assemble(self) -> str:
        """Return the text of the module, with the math functions that it calls."""
        for used in self.math.values():
            self.declarations.update(definitions(*used))
        parts = [*self.declarations.values(), "", *self.functions]
        if self.uses_hints:
            parts.append('!0 = !{!"branch_weights", i32 2000, i32 1}')
        if self.streamed:
            parts.append("!1 = !{i32 1}")
        if self.unrolled:
            parts.append(f'!{UNROLL_METADATA} = !{{!"llvm.loop.unroll.full"}}')
            parts += self.unrolled
        return "\n".join(parts) + "\n"
