"""Loads and stores: scalars, vectors, shuffled, masked, gathered and scattered ones."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from autotune.codegen.llvm.conversions import Conversions
from autotune.codegen.llvm.function_builder import FunctionBuilder
from autotune.codegen.llvm.index.index_arithmetic import IndexArithmetic
from autotune.codegen.llvm.index.linear_forms import Linear, constant
from autotune.codegen.llvm.integer_vectors import IntegerVectors, LaneMasks, Mask, constants
from autotune.codegen.llvm.llvm_types import const_text, llvm_type, memory_suffix, memory_type
from autotune.codegen.llvm.memory.addresses import ALIGNMENT, Addresses
from autotune.codegen.llvm.memory.cache_hints import CacheHints
from autotune.codegen.llvm.memory.memory_versions import MemoryVersions
from autotune.ir import dtypes
from autotune.ir.expr import Buffer, Expr, Load

#: Greatest distance of lanes at which all elements in between are read under a mask.
_NEAR: Final = 4

#: Bytes of the widest registers.
_REGISTER: Final = 64


def whole_lanes(lanes: int) -> int:
    """Return the least power of two that is not smaller."""
    return 1 << (lanes - 1).bit_length()


def _first(lanes: int) -> str:
    """Return the mask of the first lanes of a vector."""
    mask = ["true" if lane < lanes else "false" for lane in range(whole_lanes(lanes))]
    return constants("i1", mask)


@dataclass(eq=False, repr=False)
class LoadsStores:
    """Loads and stores elements of buffers."""

    builder: FunctionBuilder
    index: IndexArithmetic
    vectors: IntegerVectors
    masks: LaneMasks
    conversions: Conversions
    addresses: Addresses
    versions: MemoryVersions
    hints: CacheHints

    # -- loads -------------------------------------------------------------------------------------

    def load(self, load: Load) -> str:
        """Operand text of the value of a load."""
        lanes, mask = load.lanes, self.masks.mask
        if lanes == 1:
            return self._load_uniform(load, self.index.form(load.index))
        known = self.vectors.offsets(load.index)
        if known is None:
            return self._one_by_one(load) if mask is None else self._gather(load, mask)
        base, offsets = known
        if not any(offsets):
            return self.vectors.splat(self._load_uniform(load, base), load.dtype, lanes)
        consecutive = offsets == range(lanes)
        if mask is None or self.addresses.is_private(load.buffer, base, offsets):
            if consecutive:
                return self.load_consecutive(load.buffer, base, lanes)
            return self._shuffled(load, base, offsets)
        if consecutive:
            return self._masked_load(load, base, mask)
        if isinstance(offsets, range) and 1 < offsets.step <= _NEAR:
            return self._masked_shuffled(load, base, offsets, mask)
        return self._gather(load, mask)

    def _load_uniform(self, load: Load, index: Linear) -> str:
        """Load one scalar, if any lane is active."""
        if self.masks.mask is None or self.masks.mask.inhabited:
            return self.load_consecutive(load.buffer, index, 1)
        return self.builder.choose(
            self.masks.any_lane(self.masks.mask.ref, self.masks.mask.lanes),
            llvm_type(load.dtype),
            lambda: self.load_consecutive(load.buffer, index, 1),
            lambda: const_text(0, load.dtype),
        )

    def load_consecutive(self, buffer: Buffer, index: Linear, lanes: int) -> str:
        """Load consecutive elements; reuse an earlier load if they were not written since."""
        key = self._consecutive(buffer, index, lanes)
        found = self.builder.recall(key)
        if isinstance(found, str):
            return found
        self.hints.prefetch(buffer, index, lanes)
        pointer, kind = self.addresses.address(buffer, index), memory_type(buffer.dtype, lanes)
        align = self.addresses.alignment(buffer, index)
        if self._is_part(buffer, lanes):
            loaded = self._load_part(buffer, lanes, pointer, align)
        else:
            loaded = self.builder.define(f"load {kind}, ptr {pointer}, align {align}")
        found = self.conversions.from_memory(loaded, buffer.dtype, lanes)
        self.builder.remember(key, found, self.builder.first)
        return found

    def _consecutive(self, buffer: Buffer, index: Linear, lanes: int) -> Hashable:
        return "load", buffer, index.key, index.const, lanes, self.versions.version_of(buffer)

    def keep(self, buffer: Buffer, base: Linear, offsets: Sequence[int], value: str) -> None:
        """Keep elements at constant distances, loaded already, until the buffer is written."""
        self.builder.remember(self._key(buffer, base, offsets), value, self.builder.first)

    def _key(self, buffer: Buffer, base: Linear, offsets: Sequence[int]) -> Hashable:
        at = base.key, base.const, tuple(offsets)
        return "columns", buffer, *at, self.versions.version_of(buffer)

    def _is_part(self, buffer: Buffer, lanes: int) -> bool:
        """Whether some lanes of memory are best accessed as a part of whole vectors, by a mask.

        LLVM would access 7 lanes as 4, 2 and 1. Memory of this function alone is left to it,
        because it can become registers.
        """
        fits = dtypes.itemsize(buffer.dtype) in (4, 8)
        fits = fits and lanes > 4 and lanes != whole_lanes(lanes)
        return fits and not self.addresses.is_own(buffer)

    def _load_part(self, buffer: Buffer, lanes: int, pointer: str, align: int) -> str:
        """Load fewer lanes than a vector has."""
        whole, mask = whole_lanes(lanes), _first(lanes)
        loaded = self._masked("load", buffer.dtype, whole, pointer, align, mask, "poison")
        return self._resized(memory_type(buffer.dtype, whole), loaded, whole, lanes)

    def _store_part(self, buffer: Buffer, lanes: int, pointer: str, align: int, value: str) -> None:
        """Store fewer lanes than a vector has."""
        whole, mask = whole_lanes(lanes), _first(lanes)
        value = self._resized(memory_type(buffer.dtype, lanes), value, lanes, whole)
        self._masked("store", buffer.dtype, whole, pointer, align, mask, value)

    def _resized(self, kind: str, value: str, lanes: int, size: int) -> str:
        picks = [str(lane) if lane < lanes else "poison" for lane in range(size)]
        return self._permuted(kind, value, size, constants("i32", picks))

    def _shuffled(self, load: Load, base: Linear, offsets: Sequence[int]) -> str:
        """Load elements at constant distances as few vectors, or one by one if they are far apart.

        No element outside the range of the requested elements is read.
        """
        kept = self.builder.recall(self._key(load.buffer, base, offsets))
        if isinstance(kept, str):
            return kept
        low, lanes = min(offsets), load.lanes
        positions = [offset - low for offset in offsets]
        span = max(positions) + 1
        width = min(span, lanes)
        starts = [min(i * width, span - width) for i in range(-(-span // width))]
        if len(starts) > max(2, min(8, lanes // 2)):
            starts, width = sorted(set(positions)), 1
        kind, result, left = llvm_type(load.dtype, lanes), "", dict(enumerate(positions))
        for start in starts:
            inside = {i: p - start for i, p in left.items() if start <= p < start + width}
            if inside:
                chunk = self.load_consecutive(load.buffer, base + constant(low + start), width)
                result = self._picked(kind, result, chunk, inside, width)
            left = {i: p for i, p in left.items() if i not in inside}
        return result

    def _masked_shuffled(self, load: Load, base: Linear, offsets: range, mask: Mask) -> str:
        """Load the active lanes, at a constant distance, as few masked vectors."""
        lanes = load.lanes
        kind, result = llvm_type(load.dtype, lanes), ""
        for start in range(0, lanes * offsets.step, lanes):
            inside = {i: p - start for i, p in enumerate(offsets) if start <= p < start + lanes}
            if not inside:
                continue
            picks = [lanes] * lanes  # of no lane
            for lane, place in inside.items():
                picks[place] = lane
            active = self.builder.define(
                f"shufflevector <{lanes} x i1> {mask.ref}, <{lanes} x i1> zeroinitializer, "
                f"<{lanes} x i32> {constants('i32', picks)}"
            )
            index = base + constant(start)
            pointer = self.addresses.address(load.buffer, index)
            align = self.addresses.alignment(load.buffer, index)
            chunk = self._masked("load", load.dtype, lanes, pointer, align, active)
            chunk = self.conversions.from_memory(chunk, load.dtype, lanes)
            result = self._picked(kind, result, chunk, inside, lanes)
        return result

    def _picked(
        self, kind: str, result: str, chunk: str, inside: dict[int, int], width: int
    ) -> str:
        """Put element p of `chunk` into lane i of `result` for the pairs of `inside`."""
        lanes, scalar = kind[1:-1].split(" x ")
        if width == 1:
            for lane in inside:
                result = self.builder.define(
                    f"insertelement {kind} {result or 'poison'}, {scalar} {chunk}, i64 {lane}"
                )
            return result
        if inside == {i: i for i in range(int(lanes))}:
            return chunk
        if not result:
            picks = [str(inside.get(i, "poison")) for i in range(int(lanes))]
            pair = f"<{width} x {scalar}> {chunk}, <{width} x {scalar}> poison"
        else:
            picks = [str(int(lanes) + inside[i] if i in inside else i) for i in range(int(lanes))]
            pair = f"{kind} {result}, {kind} {chunk}"
        return self.builder.define(
            f"shufflevector {pair}, <{lanes} x i32> {constants('i32', picks)}"
        )

    def _one_by_one(self, load: Load) -> str:
        """Load lanes at distances that are known only at run time.

        Gathers were a fifth slower on the processors tried (Zen 4), and addresses hoist like this.
        """
        kind, scalar = llvm_type(load.dtype, load.lanes), llvm_type(load.dtype)
        result = "poison"
        for lane, form in enumerate(self.index.lanes(load.index)):
            one = self.load_consecutive(load.buffer, form, 1)
            result = self.builder.define(
                f"insertelement {kind} {result}, {scalar} {one}, i64 {lane}"
            )
        return result

    def load_or(self, load: Load, others: str) -> str | None:
        """Operand text of a masked load, with other values in lanes that are not active.

        None if that would take more than one instruction.
        """
        mask, known = self.masks.mask, self.vectors.offsets(load.index)
        if mask is None or known is None or known[1] != range(load.lanes):
            return None
        is_converted = memory_type(load.dtype) != llvm_type(load.dtype)
        if is_converted or self.addresses.is_private(load.buffer, *known):
            return None
        if self._ahead(load, known[0], mask) is not None:
            return None
        return self._active(load, known[0], mask, others)

    def _masked_load(self, load: Load, index: Linear, mask: Mask) -> str:
        """Load the active lanes; shift an earlier load if the first lanes are not active."""
        ahead = self._ahead(load, index, mask)
        if ahead is not None:
            kind, behind = llvm_type(load.dtype, load.lanes), mask.behind
            picks = [*["poison"] * behind, *range(load.lanes - behind)]
            return self._permuted(kind, ahead, load.lanes, constants("i32", picks))
        loaded = self._active(load, index, mask, "zeroinitializer")
        return self.conversions.from_memory(loaded, load.dtype, load.lanes)

    def _ahead(self, load: Load, index: Linear, mask: Mask) -> str | None:
        """Return an earlier load that holds the active lanes in its first lanes.

        Vectors of several registers are loaded again: each register would be shuffled with the one
        before it. Those on the stack can only be registers if they are shifted.
        """
        size = load.lanes * dtypes.itemsize(load.dtype)
        if not mask.behind or (size > _REGISTER and not self.addresses.is_own(load.buffer)):
            return None
        key = self._consecutive(load.buffer, index + constant(mask.behind), load.lanes)
        ahead = self.builder.recall(key)
        return ahead if isinstance(ahead, str) else None

    def _active(self, load: Load, index: Linear, mask: Mask, others: str) -> str:
        """Load the active lanes of a vector in memory."""
        pointer = self.addresses.address(load.buffer, index)
        align = self.addresses.alignment(load.buffer, index)
        return self._masked("load", load.dtype, load.lanes, pointer, align, mask.ref, others)

    def _gather(self, load: Load, mask: Mask) -> str:
        """Load the active lanes from any addresses."""
        places = self.addresses.lane_pointers(load.buffer, load.index)
        size = dtypes.itemsize(load.dtype)
        loaded = self._masked("gather", load.dtype, load.lanes, places, size, mask.ref)
        return self.conversions.from_memory(loaded, load.dtype, load.lanes)

    def _masked(
        self,
        what: Literal["load", "gather", "store", "scatter"],
        dtype: str,
        lanes: int,
        at: str,
        align: int,
        mask: str,
        value: str = "zeroinitializer",
    ) -> str:
        """Access the lanes of a mask: at a pointer, or at a vector of pointers.

        `value`: the stored value, or the value of the other lanes of a load.
        """
        kind, masks = memory_type(dtype, lanes), f"<{lanes} x i1>"
        pointers, short = ("ptr", "p0")
        if what in ("gather", "scatter"):
            pointers, short = f"<{lanes} x ptr>", f"v{lanes}p0"
        name = f"llvm.masked.{what}.{memory_suffix(dtype, lanes)}.{short}"
        places = f"{pointers} {at}, i32 {align}, {masks} {mask}"
        if what in ("load", "gather"):
            self.builder.declare(
                name, f"declare {kind} @{name}({pointers}, i32 immarg, {masks}, {kind})"
            )
            return self.builder.define(f"call {kind} @{name}({places}, {kind} {value})")
        self.builder.declare(name, f"declare void @{name}({kind}, {pointers}, i32 immarg, {masks})")
        self.builder.line(f"call void @{name}({kind} {value}, {places})")
        return ""

    # -- stores ------------------------------------------------------------------------------------

    def store(self, buffer: Buffer, index: Expr, value: str) -> None:
        """Store the value (as it is in registers) at a scalar or vector index."""
        value = self.conversions.to_memory(value, buffer.dtype, index.lanes)
        lanes, mask = index.lanes, self.masks.mask.ref if self.masks.mask else ""
        order: Sequence[int] = range(lanes)
        known = self.vectors.offsets(index) if lanes > 1 else (self.index.form(index), order)
        if (
            known is not None
            and known[1] != order
            and sorted(known[1]) == list(range(min(known[1]), min(known[1]) + lanes))
        ):
            low = min(known[1])
            picks = constants("i32", [list(known[1]).index(low + i) for i in order])
            value = self._permuted(memory_type(buffer.dtype, lanes), value, lanes, picks)
            mask = mask and self._permuted(f"<{lanes} x i1>", mask, lanes, picks)
            known = known[0] + constant(low), order
        if known is None or known[1] != order:
            self._scatter(buffer, index, value)
        else:
            self._store(buffer, known[0], value, lanes, mask)
        self.versions.stored(buffer)

    def _store(self, buffer: Buffer, index: Linear, value: str, lanes: int, mask: str) -> None:
        """Store consecutive elements, only those in `mask` if there is one."""
        dtype = buffer.dtype
        kind = memory_type(dtype, lanes)
        pointer = self.addresses.address(buffer, index)
        align = self.addresses.alignment(buffer, index)
        if mask and self.addresses.is_private(buffer, index, range(lanes)):
            old = self.builder.define(f"load {kind}, ptr {pointer}, align {align}")
            value = self.builder.select(mask, lanes, kind, value, old)
            mask = ""
        if not mask and self._is_part(buffer, lanes):
            self._store_part(buffer, lanes, pointer, align, value)
            return
        if not mask:
            hint = self.hints.store_metadata(buffer, lanes)
            if hint and buffer in self.addresses.lines:  # whole cache lines begin at one
                align = math.gcd(ALIGNMENT, dtypes.itemsize(dtype) * lanes)
            self.builder.line(f"store {kind} {value}, ptr {pointer}, align {align}{hint}")
            return
        self._masked("store", dtype, lanes, pointer, align, mask, value)

    def _permuted(self, kind: str, value: str, lanes: int, picks: str) -> str:
        return self.builder.define(
            f"shufflevector {kind} {value}, {kind} poison, <{lanes} x i32> {picks}"
        )

    def _scatter(self, buffer: Buffer, index: Expr, value: str) -> None:
        """Store lanes to any addresses, in order."""
        kind, align = memory_type(buffer.dtype, index.lanes), dtypes.itemsize(buffer.dtype)
        if self.masks.mask is None:
            for lane, form in enumerate(self.index.lanes(index)):
                one = self.builder.define(f"extractelement {kind} {value}, i64 {lane}")
                pointer = self.addresses.address(buffer, form)
                self.builder.line(
                    f"store {memory_type(buffer.dtype)} {one}, ptr {pointer}, align {align}"
                )
            return
        places = self.addresses.lane_pointers(buffer, index)
        mask = self.masks.mask.ref
        self._masked("scatter", buffer.dtype, index.lanes, places, align, mask, value)
