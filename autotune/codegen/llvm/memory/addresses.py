"""Addresses of buffers, and the known alignment of their elements."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from autotune.codegen.llvm.function_builder import FunctionBuilder
from autotune.codegen.llvm.index.index_arithmetic import IndexArithmetic
from autotune.codegen.llvm.index.linear_arithmetic import LinearArithmetic
from autotune.codegen.llvm.index.linear_forms import Linear, constant, within
from autotune.codegen.llvm.integer_vectors import IntegerVectors, constants
from autotune.codegen.llvm.llvm_types import memory_type
from autotune.errors import CodegenError
from autotune.ir import dtypes
from autotune.ir.expr import Buffer, Expr, SizeVar

#: Alignment of allocations in bytes: a cache line, and the widest vector.
ALIGNMENT = 64


@dataclass(eq=False, repr=False)
class Addresses:
    """Has the pointers to buffers and writes pointers to their elements."""

    builder: FunctionBuilder
    linear: LinearArithmetic
    index: IndexArithmetic
    vectors: IntegerVectors
    #: Variables with the number of elements of an array before the first cache line.
    lines: Mapping[Buffer, SizeVar]
    #: Base pointers in scope.
    pointers: dict[Buffer, str] = field(init=False, default_factory=dict)
    #: Buffers allocated by the kernel, aligned to `ALIGNMENT` bytes.
    aligned: set[Buffer] = field(init=False, default_factory=set)
    _private: dict[Buffer, int] = field(init=False, default_factory=dict)

    def own(self, buffer: Buffer, pointer: str, private: int = 0) -> None:
        """Record that the kernel allocated a buffer, and its number of elements if on the stack."""
        self.pointers[buffer] = pointer
        self.aligned.add(buffer)
        if private:
            self._private[buffer] = private

    def address(self, buffer: Buffer, index: Linear) -> str:
        """Pointer to element `index`; the constant part is a separate, foldable offset."""
        base = self.pointers.get(buffer)
        if base is None:
            raise CodegenError(f"buffer {buffer.name!r} is used where it is not allocated")
        kind = memory_type(buffer.dtype)
        pointer, depth = base, 1
        if index.terms:
            # Allocated buffers exist from the body (depth 1) on.
            depth = max(1, *(atom.depth for atom in index.terms))
            key = (base, index.key)
            found = self.builder.recall(key)
            if not isinstance(found, str):
                offset = self.linear.materialise(index.variable())
                found = self.builder.define(
                    f"getelementptr {kind}, ptr {base}, i64 {offset}", "p", depth
                )
                self.builder.remember(key, found, depth)
            pointer = found
        if not index.const:
            return pointer
        place = f"getelementptr {kind}, ptr {pointer}, i64 {index.const}"
        return self.builder.define_once((pointer, index.const), place, "p", depth)

    def alignment(self, buffer: Buffer, index: Linear) -> int:
        """Largest known alignment in bytes of an element, at most that of allocations.

        Callers' arrays are only known to be aligned to their elements, unless the index counts from
        a cache line (`FunctionInfo.line_offsets`).
        """
        size = dtypes.itemsize(buffer.dtype)
        if buffer not in self.aligned:
            line = self.index.env.get(self.lines[buffer]) if buffer in self.lines else None
            if line is None:
                return size
            index -= line
        return math.gcd(ALIGNMENT, size * index.const, *(size * c for c in index.terms.values()))

    def lane_pointers(self, buffer: Buffer, index: Expr) -> str:
        """Vector of pointers to the elements of a vector index."""
        kind, lanes = memory_type(buffer.dtype), index.lanes
        known = self.vectors.offsets(index)
        if known is None:
            base, offsets = self.address(buffer, constant(0)), self.vectors.wide(index)
        else:
            base, offsets = self.address(buffer, known[0]), constants("i64", known[1])
        return self.builder.define(
            f"getelementptr {kind}, ptr {base}, <{lanes} x i64> {offsets}", "p"
        )

    def is_own(self, buffer: Buffer) -> bool:
        """Whether a buffer is on the stack, where it can become registers."""
        return buffer in self._private

    def is_private(self, buffer: Buffer, base: Linear, offsets: Sequence[int]) -> bool:
        """Whether these elements exist and only this function can access them.

        Then inactive lanes may be read and written back, and memory without masked operations can
        become registers.
        """
        size = self._private.get(buffer, 0)
        return within(base, -min(offsets), size - 1 - max(offsets))
