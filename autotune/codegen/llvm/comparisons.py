"""Comparisons: of linear forms, of lanes that differ by constants, and of any two values."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.codegen.llvm.function_builder import FunctionBuilder
from autotune.codegen.llvm.index.index_arithmetic import Evaluator, IndexArithmetic
from autotune.codegen.llvm.index.linear_arithmetic import LinearArithmetic
from autotune.codegen.llvm.index.linear_forms import Linear, constant, within
from autotune.codegen.llvm.integer_vectors import IntegerVectors, constants
from autotune.codegen.llvm.llvm_types import llvm_type, vector_of
from autotune.ir import dtypes
from autotune.ir.algebra.intervals import decide_comparison
from autotune.ir.expr import BinaryOp, Expr
from autotune.ir.visitor import walk_expr

#: Comparisons of signed integers, by their name in LLVM.
_SIGNED_TESTS = {"==": "eq", "!=": "ne", "<": "slt", "<=": "sle", ">": "sgt", ">=": "sge"}
_FLOAT_TESTS = {"==": "oeq", "!=": "une", "<": "olt", "<=": "ole", ">": "ogt", ">=": "oge"}


@dataclass(eq=False, repr=False)
class Comparisons:
    """Writes comparisons; comparisons of index arithmetic are exact."""

    builder: FunctionBuilder
    linear: LinearArithmetic
    index: IndexArithmetic
    vectors: IntegerVectors
    evaluator: Evaluator

    def compare(self, expr: BinaryOp) -> str:
        """Operand text of a comparison, of type i1 in each lane."""
        a, b, op = expr.a, expr.b, expr.op
        if expr.lanes == 1 and self.index.is_index(a) and self.index.is_index(b):
            return self._compare_forms(op, self.index.form(a), self.index.form(b))
        if expr.lanes > 1 and self.index.is_index(a) and self.index.is_index(b):
            known = self._compare_lanes(op, a, b)
            if known is not None:
                return known
        kind = llvm_type(a.dtype, expr.lanes)
        left, right = self.evaluator.value(a), self.evaluator.value(b)
        if dtypes.is_float(a.dtype):
            return self.builder.define(f"fcmp {_FLOAT_TESTS[op]} {kind} {left}, {right}")
        test = _SIGNED_TESTS[op]
        if a.dtype == dtypes.BOOL or dtypes.is_unsigned(a.dtype):
            test = test.replace("s", "u")
        return self.builder.define(f"icmp {test} {kind} {left}, {right}")

    def _compare_forms(self, op: str, a: Linear, b: Linear) -> str:
        decided = decide_comparison(op, *(a - b).bounds)
        if decided is not None:
            return "true" if decided else "false"
        left, right = self.linear.materialise(a), self.linear.materialise(b)
        return self.builder.define(f"icmp {_SIGNED_TESTS[op]} i64 {left}, {right}")

    def _compare_lanes(self, op: str, a: Expr, b: Expr) -> str | None:
        """Compare two vectors of index arithmetic exactly; None if their own type is exact.

        If lanes differ by constants, as in a guard `start + lane < n`, one scalar is compared with
        a vector of constants.
        """
        known, other = self.vectors.offsets(a), self.vectors.offsets(b)
        if known is None or other is None:
            if self._fits(a) and self._fits(b):
                return None
            kind = vector_of("i64", a.lanes)
            return self.builder.define(
                f"icmp {_SIGNED_TESTS[op]} {kind} {self.vectors.wide(a)}, {self.vectors.wide(b)}"
            )
        difference = known[0] - other[0]
        # Compare the scalar part of a - b with the remaining constant of each lane.
        limits = [y - x - difference.const for x, y in zip(known[1], other[1], strict=True)]
        return self._compare_with(op, difference.variable(), limits)

    def _compare_with(self, op: str, form: Linear, limits: list[int]) -> str:
        if form.is_const:
            decided = [decide_comparison(op, *[form.const - limit] * 2) for limit in limits]
            return constants("i1", ["true" if lane else "false" for lane in decided])
        least, most = min(limits) - 1, max(limits) + 1
        scalar = "i32" if dtypes.min_value("int32") < least and most < 2**31 else "i64"
        if scalar == "i32" and not within(form, -(2**31), 2**31 - 1):
            # A value beyond all limits is clamped; the comparison does not change.
            form = self.linear.extreme(
                "min", self.linear.extreme("max", form, constant(least)), constant(most)
            )
        ref = self.linear.materialise(form)
        if scalar == "i32":
            ref = self.builder.define(f"trunc i64 {ref} to i32")
        lanes = len(limits)
        kind, value = vector_of(scalar, lanes), self.vectors.repeated(ref, scalar, lanes)
        return self.builder.define(
            f"icmp {_SIGNED_TESTS[op]} {kind} {value}, {constants(scalar, limits)}"
        )

    def _fits(self, expr: Expr) -> bool:
        """Whether no lane of any part of an index expression leaves its own type."""
        for node in walk_expr(expr):
            if not dtypes.is_integer(node.dtype):
                continue  # the condition of a select; its operands are visited separately
            low, high = int(dtypes.min_value(node.dtype)), int(dtypes.max_value(node.dtype))
            if not all(within(form, low, high) for form in self.index.lanes(node)):
                return False
        return True
