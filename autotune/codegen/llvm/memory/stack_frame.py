"""Prologue and epilogue of a function: allocations on the stack and the heap."""

from __future__ import annotations

from dataclasses import dataclass, field

from autotune.codegen.llvm.function_builder import FunctionBuilder
from autotune.codegen.llvm.index.index_arithmetic import IndexArithmetic
from autotune.codegen.llvm.index.linear_arithmetic import LinearArithmetic
from autotune.codegen.llvm.index.linear_forms import Linear, constant
from autotune.codegen.llvm.llvm_types import memory_type, symbol
from autotune.codegen.llvm.memory.addresses import ALIGNMENT, Addresses
from autotune.errors import CodegenError
from autotune.ir import dtypes
from autotune.ir.expr import Buffer

#: Constant allocations up to this size in bytes are on the stack and can become registers.
STACK_BYTES = 16 * 1024
#: Limit of a function's stack allocations together, in bytes.
TOTAL_STACK_BYTES = 64 * 1024
#: Bytes behind a stack allocation that does not become registers: inactive lanes of vectors at the
#: end of its last row are read there, which is faster than a mask.
SLACK_BYTES = 512
#: Size in bytes from which on it does not.
_IN_MEMORY = 2048


@dataclass(eq=False, repr=False)
class StackFrame:
    """The allocations of a function, which it frees at its end."""

    builder: FunctionBuilder
    linear: LinearArithmetic
    index: IndexArithmetic
    addresses: Addresses
    #: Instructions that the function begins with.
    lines: list[str] = field(init=False, default_factory=list)
    _stack_bytes: int = field(init=False, default=0)
    _counted_to_line: int = field(init=False, default=0)
    _heap: list[tuple[str, str]] = field(init=False, default_factory=list)

    @property
    def uses_heap(self) -> bool:
        """Whether an allocation can fail."""
        return bool(self._heap)

    def alloca(self, prefix: str, kind: str, align: int) -> str:
        """Return a pointer to new memory of the LLVM type `kind` on the stack."""
        pointer = "%" + self.builder.fresh(prefix)
        self.lines.append(f"  {pointer} = alloca {kind}, align {align}")
        return pointer

    def elements_before_line(self, buffer: Buffer) -> str:
        """Return how many elements a parameter has before one that begins a cache line."""
        size, number = dtypes.itemsize(buffer.dtype), self._counted_to_line
        self._counted_to_line += 1
        self.lines += [
            f"  %at.{number} = ptrtoint ptr {self.addresses.pointers[buffer]} to i64",
            f"  %back.{number} = sub i64 0, %at.{number}",
            f"  %bytes.{number} = and i64 %back.{number}, {ALIGNMENT - 1}",
            f"  %line.{number} = lshr i64 %bytes.{number}, {size.bit_length() - 1}",
        ]
        return f"%line.{number}"

    def allocate(self, buffer: Buffer) -> None:
        """Allocate a buffer and register it in `Addresses`."""
        size = self._bytes(buffer)
        prefix = symbol(buffer.name)
        fits = size.is_const and size.const <= STACK_BYTES
        if fits and self._stack_bytes + size.const <= TOTAL_STACK_BYTES:
            self._stack_bytes += size.const
            slack = SLACK_BYTES if size.const > _IN_MEMORY else 0
            count = (size.const + slack) // dtypes.itemsize(buffer.dtype)
            kind = f"[{max(1, count)} x {memory_type(buffer.dtype)}]"
            self.addresses.own(buffer, self.alloca(prefix, kind, ALIGNMENT), private=count)
            return
        pointer = "%" + self.builder.fresh(prefix)
        self.addresses.own(buffer, pointer)
        if any(atom.depth > 0 for atom in size.terms):
            raise CodegenError(f"the size of buffer {buffer.name!r} depends on a loop")
        # aligned_alloc takes multiples of the alignment; 0 bytes would be a null pointer.
        padded = size + constant(2 * ALIGNMENT - 1)
        rounded = self.linear.floor("//", padded, constant(ALIGNMENT)).scaled(ALIGNMENT)
        self._heap.append((pointer, self.linear.materialise(rounded)))

    def _bytes(self, buffer: Buffer) -> Linear:
        size = constant(dtypes.itemsize(buffer.dtype))
        for extent in buffer.shape:
            size = self.linear.product(size, self.index.form(extent))
        return size

    def enter(self) -> list[str]:
        """Lines that allocate from the heap and branch to %body, or to %end on failure."""
        if not self._heap:
            return ["  br label %body"]
        self.builder.declare(
            "aligned_alloc", "declare noalias ptr @aligned_alloc(i64, i64) nounwind"
        )
        self.builder.declare("free", "declare void @free(ptr) nounwind")
        lines, failed = [], "false"
        for number, (pointer, size) in enumerate(self._heap):
            lines.append(f"  {pointer} = call ptr @aligned_alloc(i64 {ALIGNMENT}, i64 {size})")
            lines.append(f"  %null.{number} = icmp eq ptr {pointer}, null")
            lines.append(f"  %failed.{number} = or i1 {failed}, %null.{number}")
            failed = f"%failed.{number}"
        lines += [
            f"  br i1 {failed}, label %exhausted, label %body",
            "exhausted:",
            "  store i32 1, ptr %status",
            "  br label %end",
        ]
        return lines

    def leave(self) -> list[str]:
        """Lines that free the heap allocations."""
        return [f"  call void @free(ptr {pointer})" for pointer, _ in self._heap]
