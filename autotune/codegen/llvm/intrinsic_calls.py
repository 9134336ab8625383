"""Calls: math functions of the module, LLVM's intrinsics, and functions of the C library."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.codegen.llvm.function_builder import FunctionBuilder
from autotune.codegen.llvm.llvm_types import const_text, llvm_type, suffix
from autotune.codegen.llvm.math import VECTOR_FUNCTIONS, function_name
from autotune.ir import dtypes
from autotune.ir.expr import Call, Const

#: Intrinsics with a processor instruction, by their name in LLVM.
_NATIVE = {
    "abs": "fabs", "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc",
    "round": "roundeven", "popcount": "ctpop",
}  # fmt: skip
#: Intrinsics that are one instruction on integers.
_BITWISE = {"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor"}
_SHIFTS = {"shift_left": "shl", "shift_right_logical": "lshr"}


@dataclass(eq=False, repr=False)
class IntrinsicCalls:
    """Writes calls with evaluated arguments, none of them of a half type."""

    builder: FunctionBuilder
    #: Math functions of the module, as (name, dtype, lanes) by symbol; those that are
    #: called are added.
    functions: dict[str, tuple[str, str, int]]

    def call(self, expr: Call, args: list[str]) -> str:
        """Operand text of the value of an intrinsic of `autotune.ir.intrinsics`."""
        name, lanes = expr.name, expr.lanes
        operand = expr.children[0].dtype if expr.children else expr.dtype
        kind = llvm_type(operand, lanes)
        if name in VECTOR_FUNCTIONS:
            return self.function(name, operand, lanes, args)
        if name == "isnan":
            return self.builder.define(f"fcmp uno {kind} {args[0]}, {args[0]}")
        if name == "rsqrt":
            root = self.intrinsic("sqrt", operand, lanes, *args)
            return self.builder.define(f"fdiv {kind} {const_text(1, operand, lanes)}, {root}")
        if name in _BITWISE:
            return self.builder.define(f"{_BITWISE[name]} {kind} {args[0]}, {args[1]}")
        if name in _SHIFTS:
            return self._shift(expr, *args)
        if name in _NATIVE:
            return self.intrinsic(_NATIVE[name], operand, lanes, *args)
        return self._lane_by_lane(expr, args)

    def function(self, name: str, dtype: str, lanes: int, args: list[str]) -> str:
        """Call a math function of the module, which is added."""
        kind, symbol = llvm_type(dtype, lanes), function_name(name, dtype, lanes)
        self.functions[symbol] = (name, dtype, lanes)
        operands = ", ".join(f"{kind} {arg}" for arg in args)
        return self.builder.define(f"call {kind} @{symbol}({operands})")

    def _shift(self, expr: Call, value: str, places: str) -> str:
        """Shift bits; in LLVM a shift by the number of bits or more is undefined."""
        kind, lanes = llvm_type(expr.dtype, expr.lanes), expr.lanes
        operation, bits = _SHIFTS[expr.name], dtypes.bits(expr.dtype)
        count = expr.children[1]
        if isinstance(count, Const) and 0 <= count.value < bits:
            return self.builder.define(f"{operation} {kind} {value}, {places}")
        zero, width = (const_text(n, expr.dtype, expr.lanes) for n in (0, bits))
        fits = self.builder.define(f"icmp ult {kind} {places}, {width}")
        some = self.builder.select(fits, lanes, kind, places, zero)
        moved = self.builder.define(f"{operation} {kind} {value}, {some}")
        return self.builder.select(fits, lanes, kind, moved, zero)

    def intrinsic(self, name: str, dtype: str, lanes: int, *args: str, flags: str = "") -> str:
        """Call an LLVM intrinsic whose arguments and result have one type."""
        kind = llvm_type(dtype, lanes)
        symbol = f"llvm.{name}.{suffix(dtype, lanes)}"
        self.builder.declare(symbol, f"declare {kind} @{symbol}({', '.join([kind] * len(args))})")
        return self.builder.define(
            f"call {flags}{kind} @{symbol}({', '.join(f'{kind} {a}' for a in args)})"
        )

    def _lane_by_lane(self, expr: Call, args: list[str]) -> str:
        """Call the C library's function of two floats, which is fmod, for each lane."""
        symbol = expr.name if expr.dtype == "float64" else f"{expr.name}f"
        scalar, kind = llvm_type(expr.dtype), llvm_type(expr.dtype, expr.lanes)
        self.builder.declare(
            symbol, f"declare {scalar} @{symbol}({scalar}, {scalar}) nounwind memory(none)"
        )

        def call(a: str, b: str) -> str:
            return self.builder.define(f"call {scalar} @{symbol}({scalar} {a}, {scalar} {b})")

        if expr.lanes == 1:
            return call(*args)
        result = "poison"
        for lane in range(expr.lanes):
            a, b = (self.builder.define(f"extractelement {kind} {a}, i64 {lane}") for a in args)
            one = call(a, b)
            result = self.builder.define(
                f"insertelement {kind} {result}, {scalar} {one}, i64 {lane}"
            )
        return result
