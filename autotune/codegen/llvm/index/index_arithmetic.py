"""Converts index expressions of the IR to linear forms, for addresses and loop bounds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from autotune.codegen.llvm.function_builder import FunctionBuilder
from autotune.codegen.llvm.index.linear_arithmetic import LinearArithmetic
from autotune.codegen.llvm.index.linear_forms import Atom, Linear, constant
from autotune.errors import CodegenError
from autotune.ir import dtypes
from autotune.ir.algebra.polynomials import add, add_to
from autotune.ir.expr import (
    ARITHMETIC,
    BinaryOp,
    Broadcast,
    Cast,
    Const,
    Expr,
    KnobVar,
    Load,
    Ramp,
    Select,
    Var,
)


class Evaluator(Protocol):
    """Evaluates any expression into an operand."""

    def value(self, expr: Expr) -> str:
        """Return the operand text of the value of `expr`."""

    def load_lane(self, load: Load, lane: int) -> str:
        """Return the operand text of one lane of a load."""


@dataclass(eq=False, repr=False)
class IndexArithmetic:
    """Evaluates integer expressions over the variables in scope in 64 bits."""

    builder: FunctionBuilder
    linear: LinearArithmetic
    #: Evaluates the other parts of an index, such as loads.
    evaluator: Evaluator
    #: Loop and size variables in scope.
    env: dict[Var, Linear] = field(init=False, default_factory=dict)
    _index_only: dict[Expr, bool] = field(init=False, default_factory=dict)
    _parts_of: dict[Expr, tuple[dict[Expr, int], int]] = field(init=False, default_factory=dict)

    def is_index(self, expr: Expr) -> bool:
        """Whether `expr` is integer arithmetic over variables and constants only."""
        known = self._index_only.get(expr)
        if known is None:
            match expr:
                case Const() | Var():
                    known = dtypes.is_index(expr.dtype)
                case BinaryOp(op=op):
                    known = op in ARITHMETIC and all(map(self.is_index, expr.children))
                case Cast():
                    lossless = dtypes.holds(expr.dtype, expr.a.dtype)
                    known = lossless and dtypes.is_index(expr.a.dtype) and self.is_index(expr.a)
                case Ramp() | Broadcast():
                    known = all(map(self.is_index, expr.children))
                case Select(condition=BinaryOp(op=op) as test):
                    parts = (*test.children, expr.true, expr.false)
                    known = op in ("<", "<=") and all(map(self.is_index, parts))
                case _:
                    known = False
            self._index_only[expr] = known
        return known

    def form(self, expr: Expr, lane: int = 0) -> Linear:
        """Return the linear form of lane `lane` of an integer expression."""
        if isinstance(expr, Var):
            return self._variable(expr)
        parts, const = self._parts(expr)
        if parts.get(expr) == 1:
            return self._part(expr, lane)
        terms: dict[Atom, int] = {}
        for part, coefficient in parts.items():
            form = self._variable(part) if isinstance(part, Var) else self.form(part, lane)
            const += coefficient * form.const
            if form.terms:
                add_to(terms, form.terms, coefficient)
        return Linear(terms, const)

    def _parts(self, expr: Expr) -> tuple[dict[Expr, int], int]:
        """Return ({part: coefficient}, constant) whose sum is an integer expression.

        The result is valid in every lane and in every context. An expression that is not a sum is a
        single part.
        """
        known = self._parts_of.get(expr)
        if known is None:
            self._parts_of[expr] = known = self._find_parts(expr)
        return known

    def _find_parts(self, expr: Expr) -> tuple[dict[Expr, int], int]:
        match expr:
            case Const() if dtypes.is_integer(expr.dtype):
                return {}, int(expr.value)
            case Cast() if dtypes.is_index(expr.a.dtype):
                return self._parts(expr.a)
            case Broadcast():
                return self._parts(expr.value)
            case BinaryOp(op="+" | "-" | "*" as op):
                (a, x), (b, y) = self._parts(expr.a), self._parts(expr.b)
                if op != "*":
                    sign = 1 if op == "+" else -1
                    return add(a, b, sign), x + sign * y
                if not a or not b:
                    return add(add({}, a, y), b, x), x * y
        return {expr: 1}, 0

    def _part(self, expr: Expr, lane: int) -> Linear:
        """Return the linear form of an expression that is not a sum."""
        if not self.is_index(expr):
            return self._form(expr, lane)
        key = (expr, lane)
        found = self.builder.recall(key)
        if not isinstance(found, Linear):
            found = self._form(expr, lane)
            self.builder.remember(key, found)
        return found

    def operand(self, expr: Expr) -> str:
        """Operand text of a scalar integer expression, of its own type."""
        return self.linear.narrowed(self.form(expr), expr.dtype)

    def lanes(self, expr: Expr) -> list[Linear]:
        """Linear form of every lane of an integer expression."""
        return [self.form(expr, lane) for lane in range(expr.lanes)]

    def _form(self, expr: Expr, lane: int) -> Linear:
        match expr:
            case Ramp():
                return self.form(expr.base) + self.form(expr.stride).scaled(lane)
            case BinaryOp() if expr.op in ARITHMETIC:
                a, b = self.form(expr.a, lane), self.form(expr.b, lane)
                return self.linear.arithmetic(expr.op, a, b)
            case Select() if self.is_index(expr):
                return self._choice(expr, lane)
            case Load() if dtypes.is_integer(expr.dtype):
                return self.linear.extended(self.evaluator.load_lane(expr, lane), expr.dtype)
        if dtypes.is_integer(expr.dtype):
            return self.linear.extended(self._lane_of(expr, lane), expr.dtype)
        raise CodegenError(f"an index must be an integer, not {expr.dtype}: {expr}")

    def _variable(self, var: Var) -> Linear:
        found = self.env.get(var)
        if found is None:
            what = "knob without a value" if isinstance(var, KnobVar) else "variable not in scope"
            raise CodegenError(f"{what}: {var.name}")
        return found

    def _lane_of(self, expr: Expr, lane: int) -> str:
        ref = self.evaluator.value(expr)
        if expr.lanes == 1:
            return ref
        bits = dtypes.bits(expr.dtype)
        return self.builder.define(f"extractelement <{expr.lanes} x i{bits}> {ref}, i64 {lane}")

    def _choice(self, expr: Select, lane: int) -> Linear:
        """Select by arithmetic, so that it can be hoisted as far as its operands allow."""
        test = expr.condition
        assert isinstance(test, BinaryOp)
        excess = self.form(test.a, lane) - self.form(test.b, lane)
        excess = excess if test.op == "<" else excess + constant(-1)
        true, false = self.form(expr.true, lane), self.form(expr.false, lane)
        return self.linear.select(excess, true, false)
