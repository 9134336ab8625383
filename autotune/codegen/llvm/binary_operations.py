"""Arithmetic on operands: floats, half types, bools and integers, scalar or vector."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.codegen.llvm.conversions import Conversions
from autotune.codegen.llvm.function_builder import FunctionBuilder
from autotune.codegen.llvm.intrinsic_calls import IntrinsicCalls
from autotune.codegen.llvm.llvm_types import const_text, llvm_type, vector_of
from autotune.errors import CodegenError
from autotune.ir import dtypes
from autotune.ir.expr import BinaryOp, Broadcast, Const, Expr

#: Flags of float arithmetic: fusing of a product and a sum, or any reordering.
_EXACT_OPS = {"+": "fadd contract", "-": "fsub contract", "*": "fmul contract", "/": "fdiv"}
_FAST_OPS = {op: f"{name.split()[0]} reassoc nsz arcp contract" for op, name in _EXACT_OPS.items()}
_INT_OPS = {"+": "add", "-": "sub", "*": "mul"}
_BOOL_OPS = {"and": "and", "or": "or", "+": "or", "*": "and", "min": "and", "max": "or"}


@dataclass(eq=False, repr=False)
class BinaryOperations:
    """Writes binary operations on evaluated operands, except comparisons."""

    builder: FunctionBuilder
    conversions: Conversions
    calls: IntrinsicCalls
    #: Whether float arithmetic may be rearranged.
    fast_math: bool

    def binary(self, expr: BinaryOp, a: str, b: str) -> str:
        """Return the operand text of `expr`, whose operands have the values `a` and `b`."""
        op, operand = expr.op, expr.a.dtype
        kind = llvm_type(operand, expr.lanes)
        if operand == dtypes.BOOL:
            if op not in _BOOL_OPS:
                raise CodegenError(f"`{op}` has no meaning for bool: {expr}")
            return self.builder.define(f"{_BOOL_OPS[op]} {kind} {a}, {b}")
        if dtypes.is_float(operand):
            ops = _FAST_OPS if self.fast_math else _EXACT_OPS
            if op not in ops:
                return self._float_extreme(expr, a, b)
            if not dtypes.is_half(operand):
                return self.builder.define(f"{ops[op]} {kind} {a}, {b}")
            # Rounded each time, so there is nothing to fuse, even with instructions for half types.
            operation = ops[op].split()[0]
            result = self.builder.define(f"{operation} {kind} {a}, {b}")
            return self.conversions.rounded(result, operand, expr.lanes)
        if op in _INT_OPS:
            return self.builder.define(f"{_INT_OPS[op]} {kind} {a}, {b}")
        if op in ("min", "max"):
            sign = "u" if dtypes.is_unsigned(operand) else "s"
            return self.calls.intrinsic(f"{sign}{op}", operand, expr.lanes, a, b)
        if dtypes.is_unsigned(operand):
            return self._unsigned_division(expr, a, b)
        return self._floor_division(expr, a, b)

    def _float_extreme(self, expr: BinaryOp, a: str, b: str) -> str:
        """Choose the smaller or larger of two floats; a NaN operand gives NaN, as in NumPy."""
        if not (_is_constant(expr.a) or _is_constant(expr.b)):
            # LLVM tests the first operand for NaN: that is not what a reduction carries along.
            name = "minimum" if expr.op == "min" else "maximum"
            return self.calls.intrinsic(name, expr.dtype, expr.lanes, b, a, flags="nsz ")
        test = "olt" if expr.op == "min" else "ogt"
        kind = llvm_type(expr.dtype, expr.lanes)
        if _is_constant(expr.b):
            a, b = b, a
        better = self.builder.define(f"fcmp {test} {kind} {a}, {b}")
        # Only the second can be a NaN, and it is chosen then.
        return self.builder.select(better, expr.lanes, kind, a, b)

    def _floor_division(self, expr: BinaryOp, a: str, b: str) -> str:
        """`//` and `%` of integers rounded down; by 0 gives 0, as in NumPy, without a trap."""
        kind = llvm_type(expr.dtype, expr.lanes)
        mask = vector_of("i1", expr.lanes)
        zero, one = (const_text(v, expr.dtype, expr.lanes) for v in (0, 1))
        divisor = expr.b.value if isinstance(expr.b, Broadcast) else expr.b
        fixed = isinstance(divisor, Const) and divisor.value not in (0, -1)
        is_zero = minus = ""
        if not fixed:
            # The divisor -1 is avoided, too, because the smallest integer divided by -1 traps.
            minus_one = const_text(-1, expr.dtype, expr.lanes)
            is_zero = self.builder.define(f"icmp eq {kind} {b}, {zero}")
            minus = self.builder.define(f"icmp eq {kind} {b}, {minus_one}")
            unsafe = self.builder.define(f"or {mask} {is_zero}, {minus}")
            b = self.builder.select(unsafe, expr.lanes, kind, one, b)
        quotient = self.builder.define(f"sdiv {kind} {a}, {b}")
        product = self.builder.define(f"mul {kind} {quotient}, {b}")
        rest = self.builder.define(f"sub {kind} {a}, {product}")
        inexact = self.builder.define(f"icmp ne {kind} {rest}, {zero}")
        signs = self.builder.define(f"xor {kind} {rest}, {b}")
        differ = self.builder.define(f"icmp slt {kind} {signs}, {zero}")
        adjust = self.builder.define(f"and {mask} {inexact}, {differ}")
        if expr.op == "//":
            lower = self.builder.define(f"sub {kind} {quotient}, {one}")
            result = self.builder.select(adjust, expr.lanes, kind, lower, quotient)
            if not fixed:
                negated = self.builder.define(f"sub {kind} {zero}, {a}")
                result = self.builder.select(minus, expr.lanes, kind, negated, result)
        else:
            raised = self.builder.define(f"add {kind} {rest}, {b}")
            result = self.builder.select(adjust, expr.lanes, kind, raised, rest)
        return result if fixed else self.builder.select(is_zero, expr.lanes, kind, zero, result)

    def _unsigned_division(self, expr: BinaryOp, a: str, b: str) -> str:
        """`//` and `%` of unsigned integers; by 0 gives 0, without a trap."""
        kind = llvm_type(expr.dtype, expr.lanes)
        zero, one = (const_text(v, expr.dtype, expr.lanes) for v in (0, 1))
        operation = "udiv" if expr.op == "//" else "urem"
        is_zero = self.builder.define(f"icmp eq {kind} {b}, {zero}")
        safe = self.builder.select(is_zero, expr.lanes, kind, one, b)
        result = self.builder.define(f"{operation} {kind} {a}, {safe}")
        return self.builder.select(is_zero, expr.lanes, kind, zero, result)


def _is_constant(expr: Expr) -> bool:
    if isinstance(expr, Broadcast):
        expr = expr.value
    return isinstance(expr, Const) and expr.value == expr.value
