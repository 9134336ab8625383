"""Loads, addresses and masks: how values get from memory into registers and back."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

from autotune.codegen.llvm.indices import Indices
from autotune.codegen.llvm.linear import Linear
from autotune.codegen.llvm.types import const_text, llvm_type, memory_type, suffix, vector_of
from autotune.errors import CodegenError
from autotune.ir import dtypes
from autotune.ir.expr import Buffer, Const, Expr, Load, Ramp
from autotune.ir.visitor import walk_expr


class Memory(Indices):
    """A writer that loads and stores elements of buffers.

    Attributes
    ----------
    mask : (str, int) or None
        Inside the branches of a vector `if_then_else`: which of how many lanes are active.
    epoch : int
        Counts loops and branches that wrote; loaded values are remembered within one epoch only.
    writes : dict of Buffer to int
        Counts stores to each buffer: one forgets what was loaded from that buffer alone.
    """

    def __init__(self) -> None:
        super().__init__()
        self.mask: tuple[str, int] | None = None
        self.epoch = 0
        self.writes: dict[Buffer, int] = {}
        self._sources: dict[Expr, tuple[Buffer, ...]] = {}

    def sources(self, expr: Expr) -> tuple[Buffer, ...]:
        """Buffers that the value of `expr` is read from."""
        known = self._sources.get(expr)
        if known is None:
            loads = (node.buffer for node in walk_expr(expr) if isinstance(node, Load))
            self._sources[expr] = known = tuple(dict.fromkeys(loads))
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

    def consecutive(self, index: Expr) -> Linear | None:
        """First lane of a vector index whose lanes are consecutive elements, else None."""
        if index.lanes == 1:
            return self.form(index)
        if isinstance(index, Ramp) and isinstance(index.stride, Const):
            return self.form(index.base) if index.stride.value == 1 else None
        lanes = self.lanes(index)
        key, const = lanes[0].key, lanes[0].const
        if all(f.const == const + i and f.key == key for i, f in enumerate(lanes)):
            return lanes[0]
        return None

    def load(self, load: Load) -> str:
        """Operand text of the value of a load."""
        if load.lanes == 1:
            return self.load_lane(load, self.form(load.index))
        first = self.consecutive(load.index)
        if first is None:
            return self._gather(load, self.lanes(load.index))
        if self.mask is None:
            return self._load_unmasked(load.buffer, first, load.lanes)
        pointer = self.address(load.buffer, first)
        kind = memory_type(load.dtype, load.lanes)
        loaded = self._masked_load(load, pointer, kind, self.mask[0])
        return self._from_memory(loaded, load.dtype, load.lanes)

    def load_lane(self, load: Load, index: Linear) -> str:
        """Operand text of the scalar at `index`, loaded if any lane is active."""
        return self._load_element(load, index, None)

    def _load_unmasked(self, buffer: Buffer, index: Linear, lanes: int) -> str:
        """Load consecutive elements, unless the same ones were loaded and not written since."""
        key = ("load", buffer, index.key, index.const, lanes, self.version((buffer,)))
        found = self.recall(key)
        if isinstance(found, str):
            return found
        pointer, kind = self.address(buffer, index), memory_type(buffer.dtype, lanes)
        align = dtypes.itemsize(buffer.dtype)
        loaded = self.define(f"load {kind}, ptr {pointer}, align {align}")
        found = self._from_memory(loaded, buffer.dtype, lanes)
        self.remember(key, found, self.first)
        return found

    def _masked_load(self, load: Load, pointer: str, kind: str, mask: str) -> str:
        element = suffix(load.dtype, load.lanes)
        if load.dtype == dtypes.BOOL:
            element = f"v{load.lanes}i8"
        lanes = f"<{load.lanes} x i1>"
        symbol = f"llvm.masked.load.{element}.p0"
        self.declare(symbol, f"declare {kind} @{symbol}(ptr, i32 immarg, {lanes}, {kind})")
        return self.define(
            f"call {kind} @{symbol}(ptr {pointer}, i32 {dtypes.itemsize(load.dtype)}, "
            f"{lanes} {mask}, {kind} zeroinitializer)"
        )

    def _gather(self, load: Load, forms: list[Linear]) -> str:
        if all(f.const == forms[0].const and f.key == forms[0].key for f in forms):
            return self.splat(self.load_lane(load, forms[0]), load.dtype, load.lanes)
        kind, scalar = llvm_type(load.dtype, load.lanes), llvm_type(load.dtype)
        result = "poison"
        for lane, form in enumerate(forms):
            one = self._load_element(load, form, lane)
            result = self.define(f"insertelement {kind} {result}, {scalar} {one}, i64 {lane}")
        return result

    def _load_element(self, load: Load, index: Linear, lane: int | None) -> str:
        if self.mask is None:
            return self._load_unmasked(load.buffer, index, 1)
        mask, lanes = self.mask
        if lane is None:
            symbol = f"llvm.vector.reduce.or.v{lanes}i1"
            self.declare(symbol, f"declare i1 @{symbol}(<{lanes} x i1>)")
            active = self.define(f"call i1 @{symbol}(<{lanes} x i1> {mask})")
        else:
            active = self.define(f"extractelement <{lanes} x i1> {mask}, i64 {lane}")
        zero = const_text(0, load.dtype)
        return self.choose(
            active,
            llvm_type(load.dtype),
            lambda: self._load_unmasked(load.buffer, index, 1),
            lambda: zero,
        )

    @contextmanager
    def masked(self, mask: str, lanes: int) -> Iterator[None]:
        """Evaluate with loads restricted to the lanes of `mask`."""
        outer = self.mask
        if outer is not None:
            mask = self.define(f"and {vector_of('i1', lanes)} {outer[0]}, {mask}")
        with self.region():
            self.mask = (mask, lanes)
            try:
                yield
            finally:
                self.mask = outer

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

    def splat(self, ref: str, dtype: str, lanes: int) -> str:
        """Vector with the scalar `ref` in all lanes."""
        if not ref.startswith("%"):
            return f"splat ({llvm_type(dtype)} {ref})"
        key = ("splat", ref, lanes)
        found = self.recall(key)
        if isinstance(found, str):
            return found
        kind = llvm_type(dtype, lanes)
        first = self.define(f"insertelement {kind} poison, {llvm_type(dtype)} {ref}, i64 0")
        found = self.define(
            f"shufflevector {kind} {first}, {kind} poison, <{lanes} x i32> zeroinitializer"
        )
        self.remember(key, found, self.first)
        return found

    def _from_memory(self, ref: str, dtype: str, lanes: int) -> str:
        if dtype != dtypes.BOOL:
            return ref
        zero = "0" if lanes == 1 else "zeroinitializer"
        return self.define(f"icmp ne {memory_type(dtype, lanes)} {ref}, {zero}")

    def to_memory(self, ref: str, dtype: str, lanes: int) -> str:
        """Value as it is stored: bools become bytes."""
        if dtype != dtypes.BOOL:
            return ref
        old, new = llvm_type(dtype, lanes), memory_type(dtype, lanes)
        return self.define(f"zext {old} {ref} to {new}")
