"""Conversions: between types, between registers and memory, and rounding to the half types."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.codegen.llvm.function_builder import FunctionBuilder
from autotune.codegen.llvm.llvm_types import (
    const_text,
    llvm_type,
    memory_type,
    register_type,
    vector_of,
)
from autotune.codegen.llvm.math import float16_libcalls
from autotune.ir import dtypes

#: Bits of the quiet NaN that replaces all NaNs of bfloat16, as a float32.
_QUIET_NAN = 0x7FC00000


@dataclass(eq=False, repr=False)
class Conversions:
    """Converts values; operands are as `llvm_type` says."""

    builder: FunctionBuilder

    # -- registers and memory ------------------------------------------------------------------

    def from_memory(self, ref: str, dtype: str, lanes: int) -> str:
        """Return the register value of a stored value."""
        stored = memory_type(dtype, lanes)
        if dtype == dtypes.BOOL:
            return self.builder.define(f"icmp ne {stored} {ref}, {const_text(0, 'uint8', lanes)}")
        if dtype == "float16":
            return self._extended(
                self.builder.define(f"bitcast {stored} {ref} to {_half(lanes)}"), lanes
            )
        if dtype == "bfloat16":
            bits = vector_of("i32", lanes)
            wide = self.builder.define(f"zext {stored} {ref} to {bits}")
            high = self.builder.define(f"shl {bits} {wide}, {const_text(16, 'int32', lanes)}")
            return self.builder.define(f"bitcast {bits} {high} to {llvm_type(dtype, lanes)}")
        return ref

    def to_memory(self, ref: str, dtype: str, lanes: int) -> str:
        """Return a value in the form in which it is stored."""
        held, stored = llvm_type(dtype, lanes), memory_type(dtype, lanes)
        if dtype == dtypes.BOOL:
            return self.builder.define(f"zext {held} {ref} to {stored}")
        if dtype == "float16":
            return self.builder.define(
                f"bitcast {_half(lanes)} {self._halved(ref, lanes)} to {stored}"
            )
        if dtype == "bfloat16":
            bits = vector_of("i32", lanes)
            wide = self.builder.define(f"bitcast {held} {ref} to {bits}")
            high = self.builder.define(f"lshr {bits} {wide}, {const_text(16, 'int32', lanes)}")
            return self.builder.define(f"trunc {bits} {high} to {stored}")
        return ref

    # -- half types ----------------------------------------------------------------------------

    def rounded(self, ref: str, dtype: str, lanes: int) -> str:
        """Round a float32 to a half type, to nearest, ties to even; other types are unchanged."""
        if dtype == "float16":
            return self._extended(self._halved(ref, lanes), lanes)
        return self._rounded_to_bfloat(ref, lanes) if dtype == "bfloat16" else ref

    def _halved(self, ref: str, lanes: int) -> str:
        self.builder.declare("__truncsfhf2", float16_libcalls.TRUNCATE)
        return self.builder.define(f"fptrunc {vector_of('float', lanes)} {ref} to {_half(lanes)}")

    def _extended(self, ref: str, lanes: int) -> str:
        self.builder.declare("__extendhfsf2", float16_libcalls.EXTEND)
        # LLVM may move the conversion behind a maximum, whose operands it converts back and forth.
        self.builder.declare("__truncsfhf2", float16_libcalls.TRUNCATE)
        return self.builder.define(f"fpext {_half(lanes)} {ref} to {vector_of('float', lanes)}")

    def _rounded_to_bfloat(self, ref: str, lanes: int) -> str:
        """Round in integers, because the processors' instruction drops subnormal numbers."""
        kind, bits = vector_of("float", lanes), vector_of("i32", lanes)

        def number(value: int) -> str:
            return const_text(value, "uint32", lanes)

        pattern = self.builder.define(f"bitcast {kind} {ref} to {bits}")
        shifted = self.builder.define(f"lshr {bits} {pattern}, {number(16)}")
        odd = self.builder.define(f"and {bits} {shifted}, {number(1)}")
        below = self.builder.define(f"add {bits} {odd}, {number(0x7FFF)}")
        up = self.builder.define(f"add {bits} {pattern}, {below}")
        kept = self.builder.define(f"and {bits} {up}, {number(0xFFFF0000)}")
        unordered = self.builder.define(f"fcmp uno {kind} {ref}, {ref}")
        result = self.builder.select(unordered, lanes, bits, number(_QUIET_NAN), kept)
        return self.builder.define(f"bitcast {bits} {result} to {kind}")

    # -- casts -----------------------------------------------------------------------------------

    def converted(self, ref: str, source: str, target: str, lanes: int) -> str:
        """Value `ref` of type `source` as one of type `target`; docs/dtypes.md has the rules."""
        if source == target:
            return ref
        if target == dtypes.BOOL:
            test = "fcmp une" if dtypes.is_float(source) else "icmp ne"
            zero = const_text(0, source, lanes)
            return self.builder.define(f"{test} {llvm_type(source, lanes)} {ref}, {zero}")
        if not dtypes.is_float(target):
            if dtypes.is_float(source):
                return self._saturated(ref, source, target, lanes)
            return self._resized(ref, source, target, lanes)
        held = register_type(target)
        if dtypes.is_float(source):
            ref = self._refloated(ref, register_type(source), held, lanes)
        else:
            signed = dtypes.is_integer(source) and not dtypes.is_unsigned(source)
            ref = self._to(f"{'s' if signed else 'u'}itofp", ref, source, held, lanes)
        exact = dtypes.bits(source) <= 8  # both half types can represent all integers of eight bits
        return ref if exact else self.rounded(ref, target, lanes)

    def _to(self, operation: str, ref: str, source: str, target: str, lanes: int) -> str:
        old, new = llvm_type(source, lanes), llvm_type(target, lanes)
        return self.builder.define(f"{operation} {old} {ref} to {new}")

    def _refloated(self, ref: str, source: str, target: str, lanes: int) -> str:
        if source == target:
            return ref
        return self._to("fpext" if target == "float64" else "fptrunc", ref, source, target, lanes)

    def _resized(self, ref: str, source: str, target: str, lanes: int) -> str:
        """Integer or bool to integer, modulo the width of the target."""
        old, new = dtypes.bits(source), dtypes.bits(target)
        if old == new:
            return ref
        unsigned = source == dtypes.BOOL or dtypes.is_unsigned(source)
        operation = "trunc" if new < old else "zext" if unsigned else "sext"
        return self._to(operation, ref, source, target, lanes)

    def _saturated(self, ref: str, source: str, target: str, lanes: int) -> str:
        """Convert a float to an integer towards zero, saturating; a NaN gives 0.

        The value is clamped first (LLVM's saturating conversion works lane by lane on x86).
        """
        held, kind = register_type(source), llvm_type(source, lanes)
        low, high = int(dtypes.min_value(target)), int(dtypes.max_value(target))
        # The largest float that is not above `high`; larger values get `high` afterwards.
        spare = max(0, high.bit_length() - (24 if held == "float32" else 53))
        limit = high >> spare << spare
        bottom, top = (const_text(float(end), held, lanes) for end in (low, limit))
        above = self.builder.define(f"fcmp ogt {kind} {ref}, {bottom}")
        cut = self.builder.select(above, lanes, kind, ref, bottom)  # `low` for a NaN
        beyond = self.builder.define(f"fcmp ogt {kind} {cut}, {top}")
        cut = self.builder.select(beyond, lanes, kind, top, cut)
        wide = target if dtypes.bits(target) >= 32 else "int32"
        operation = "fptoui" if dtypes.is_unsigned(wide) else "fptosi"
        result = self._to(operation, cut, held, wide, lanes)
        whole = llvm_type(wide, lanes)
        if limit < high:
            most = const_text(high, wide, lanes)
            result = self.builder.select(beyond, lanes, whole, most, result)
        if low < 0:
            unordered = self.builder.define(f"fcmp uno {kind} {ref}, {ref}")
            zero = const_text(0, wide, lanes)
            result = self.builder.select(unordered, lanes, whole, zero, result)
        return self._resized(result, wide, target, lanes)


def _half(lanes: int) -> str:
    return vector_of("half", lanes)
