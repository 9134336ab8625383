"""Memory as the emitter sees it: addresses, what is known of them, and which writes lie between."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence

from autotune.codegen.llvm.conversions import Conversions
from autotune.codegen.llvm.linear_forms import Linear, constant, within
from autotune.codegen.llvm.llvm_types import memory_type
from autotune.codegen.llvm.vector_ops import constants
from autotune.errors import CodegenError
from autotune.ir import dtypes
from autotune.ir.expr import Buffer, Expr, Load, SizeVar

#: Alignment of allocations in bytes: a cache line, and the widest vector.
ALIGNMENT = 64


class Memory(Conversions):
    """A writer that knows where buffers are and when they changed.

    Attributes
    ----------
    own : set of Buffer
        Buffers allocated by the kernel, aligned to `ALIGNMENT` bytes.
    private : dict of Buffer to int
        Numbers of elements of the buffers on this function's stack.
    lines : dict of Buffer to SizeVar
        How many elements callers' arrays have before one that begins a cache line.
    epoch : int
        Counts loops and branches that wrote; loaded values are remembered within one epoch only.
    writes : dict of Buffer to int
        Counts stores to each buffer: one forgets what was loaded from that buffer alone.
    """

    def __init__(self) -> None:
        super().__init__()
        self.own: set[Buffer] = set()
        self.private: dict[Buffer, int] = {}
        self.lines: Mapping[Buffer, SizeVar] = {}
        self.epoch = 0
        self.writes: dict[Buffer, int] = {}
        self._sources: dict[Expr, tuple[Buffer, ...]] = {}

    def sources(self, expr: Expr) -> tuple[Buffer, ...]:
        """Buffers that the value of `expr` is read from."""
        known = self._sources.get(expr)
        if known is None:
            found = dict.fromkeys([expr.buffer] if isinstance(expr, Load) else ())
            for child in expr.children:
                found |= dict.fromkeys(self.sources(child))
            self._sources[expr] = known = tuple(found)
        return known

    def version(self, buffers: tuple[Buffer, ...]) -> Hashable:
        """State of memory as far as it concerns `buffers`."""
        if not buffers:
            return None
        return (self.epoch, *(self.writes.get(buffer, 0) for buffer in buffers))

    def address(self, buffer: Buffer, index: Linear) -> str:
        """Pointer to element `index`; the constant part is a separate, foldable offset."""
        base = self.buffers.get(buffer)
        if base is None:
            raise CodegenError(f"buffer {buffer.name!r} is used where it is not allocated")
        kind = memory_type(buffer.dtype)
        pointer, depth = base, 1
        if index.terms:
            # Allocated buffers exist from the body (depth 1) on.
            depth = max(1, *(atom.depth for atom in index.terms))
            key = (base, index.key)
            found = self.recall(key)
            if not isinstance(found, str):
                offset = self.materialise(index.variable())
                found = self.define(f"getelementptr {kind}, ptr {base}, i64 {offset}", "p", depth)
                self.remember(key, found, depth)
            pointer = found
        if not index.const:
            return pointer
        at = (pointer, index.const)
        found = self.recall(at)
        if not isinstance(found, str):
            offset = str(index.const)
            found = self.define(f"getelementptr {kind}, ptr {pointer}, i64 {offset}", "p", depth)
            self.remember(at, found, depth)
        return found

    def alignment(self, buffer: Buffer, index: Linear) -> int:
        """Largest known alignment in bytes of an element, at most that of allocations.

        Callers' arrays are only known to be aligned to their elements, unless the index counts from
        a cache line (`Function.lines`).
        """
        size = dtypes.itemsize(buffer.dtype)
        if buffer not in self.own:
            line = self.env.get(self.lines[buffer]) if buffer in self.lines else None
            if line is None:
                return size
            index -= line
        return math.gcd(ALIGNMENT, size * index.const, *(size * c for c in index.terms.values()))

    def pointers(self, buffer: Buffer, index: Expr) -> str:
        """Vector of pointers to the elements of a vector index."""
        kind, lanes = memory_type(buffer.dtype), index.lanes
        known = self.offsets(index)
        if known is None:
            base, offsets = self.address(buffer, constant(0)), self.wide(index)
        else:
            base, offsets = self.address(buffer, known[0]), constants("i64", known[1])
        return self.define(f"getelementptr {kind}, ptr {base}, <{lanes} x i64> {offsets}", "p")

    def is_private(self, buffer: Buffer, base: Linear, offsets: Sequence[int]) -> bool:
        """Whether these elements exist and only this function's code can touch them.

        Reading inactive lanes, or writing them back, does no harm then; and memory that no masked
        operation touches can become registers.
        """
        size = self.private.get(buffer, 0)
        return within(base, -min(offsets), size - 1 - max(offsets))

    def choose(
        self, condition: str, kind: str, true: Callable[[], str], false: Callable[[], str]
    ) -> str:
        """Evaluate one of two values of type `kind` behind a branch."""
        if condition in ("true", "false"):
            return true() if condition == "true" else false()
        labels = [self.fresh(name) for name in ("then", "else", "join")]
        code = self.code
        branches, incoming = [], []
        for label, evaluate in zip(labels[:2], (true, false), strict=True):
            with self.region(label) as branch:
                ref = evaluate()
                self.line(f"br label %{labels[2]}")
            branches.append(branch)
            incoming.append(f"[{ref}, %{branch.label}]")
        self.line(f"br i1 {condition}, label %{labels[0]}, label %{labels[1]}")
        for branch in branches:
            code.append(branch)
        code.begin(labels[2])
        return self.define(f"phi {kind} {', '.join(incoming)}")
