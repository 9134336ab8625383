"""Evaluates scalar and vector expressions: passes each kind of node to the part that writes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from autotune.codegen.llvm.binary_operations import BinaryOperations
from autotune.codegen.llvm.comparisons import Comparisons
from autotune.codegen.llvm.conversions import Conversions
from autotune.codegen.llvm.function_builder import FunctionBuilder
from autotune.codegen.llvm.index.index_arithmetic import IndexArithmetic
from autotune.codegen.llvm.integer_vectors import IntegerVectors, LaneMasks
from autotune.codegen.llvm.intrinsic_calls import IntrinsicCalls
from autotune.codegen.llvm.llvm_types import const_text, llvm_type, vector_of
from autotune.codegen.llvm.memory.loads_stores import LoadsStores
from autotune.codegen.llvm.memory.memory_versions import MemoryVersions
from autotune.errors import CodegenError
from autotune.ir import dtypes
from autotune.ir.expr import (
    COMPARISON,
    LOGIC,
    BinaryOp,
    Broadcast,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Not,
    Ramp,
    Select,
    Var,
    is_const,
)
from autotune.ir.intrinsics import INTRINSICS
from autotune.ir.ops import cast


@dataclass(eq=False, repr=False)
class ExpressionEmitter:
    """Evaluates expressions to SSA values, and reuses a value until it may change."""

    builder: FunctionBuilder
    index: IndexArithmetic
    vectors: IntegerVectors
    masks: LaneMasks
    memory: LoadsStores
    versions: MemoryVersions
    conversions: Conversions
    operations: BinaryOperations
    comparisons: Comparisons
    calls: IntrinsicCalls

    def value(self, expr: Expr) -> str:
        """Operand text of the value of `expr`, of type `llvm_type(expr.dtype, expr.lanes)`."""
        if isinstance(expr, Const):
            return const_text(expr.value, expr.dtype)
        key = (expr, self.versions.version(expr))
        found = self.builder.recall(key)
        if not isinstance(found, str):
            found = self._value(expr)
            self.builder.remember(key, found)
        return found

    def _value(self, expr: Expr) -> str:
        if dtypes.is_integer(expr.dtype) and expr.lanes == 1 and self.index.is_index(expr):
            return self.index.operand(expr)
        match expr:
            case Load():
                return self.memory.load(expr)
            case BinaryOp():
                return self._binary(expr)
            case Broadcast():
                return self.vectors.splat(self.value(expr.value), expr.dtype, expr.lanes)
            case Select():
                return self._select(expr)
            case Cast():
                return self.conversions.converted(
                    self.value(expr.a), expr.a.dtype, expr.dtype, expr.lanes
                )
            case Not():
                kind = llvm_type(dtypes.BOOL, expr.lanes)
                true = const_text(True, dtypes.BOOL, expr.lanes)
                return self.builder.define(f"xor {kind} {self.value(expr.a)}, {true}")
            case Call():
                return self._call(expr)
            case Ramp():
                return self._ramp(expr)
            case Var():
                raise CodegenError(f"variable of type {expr.dtype} not in scope: {expr.name}")
        raise CodegenError(f"{type(expr).__name__} cannot be compiled: {expr}")

    def widened(self, expr: Expr, lanes: int) -> str:
        """Value of `expr` over `lanes` lanes, repeated if it is a scalar."""
        if expr.lanes == lanes:
            return self.value(expr)
        if isinstance(expr, Const):
            return const_text(expr.value, expr.dtype, lanes)
        return self.vectors.splat(self.value(expr), expr.dtype, lanes)

    def _ramp(self, ramp: Ramp) -> str:
        kind = llvm_type(ramp.dtype, ramp.lanes)
        base = self.widened(ramp.base, ramp.lanes)
        scalar = llvm_type(ramp.dtype)
        if isinstance(ramp.stride, Const):
            step = int(ramp.stride.value)
            steps = ", ".join(f"{scalar} {step * i}" for i in range(ramp.lanes))
            return self.builder.define(f"add {kind} {base}, <{steps}>")
        counts = ", ".join(f"{scalar} {i}" for i in range(ramp.lanes))
        stride = self.widened(ramp.stride, ramp.lanes)
        scaled = self.builder.define(f"mul {kind} {stride}, <{counts}>")
        return self.builder.define(f"add {kind} {base}, {scaled}")

    def _binary(self, expr: BinaryOp) -> str:
        if expr.op in COMPARISON:
            return self.comparisons.compare(expr)
        if expr.op in LOGIC and self.versions.sources(expr.b):
            return self._short_circuit(expr)
        return self.operations.binary(expr, self.value(expr.a), self.value(expr.b))

    def _call(self, expr: Call) -> str:
        name = expr.name
        if name == "if_then_else":
            return self._if_then_else(expr)
        if name == "likely":
            return self.value(expr.children[0])
        operand = expr.children[0].dtype if expr.children else expr.dtype
        if name not in INTRINSICS or not INTRINSICS[name].accepts(operand):
            raise CodegenError(f"no intrinsic {name!r} for {operand} on the CPU")
        if dtypes.is_half(operand):
            return self._call_in_float32(expr)
        if name == "exp" and (bounded := _of_lesser_of_0(expr.children[0])) is not None:
            args = [self.widened(bounded, expr.lanes)]
            return self.calls.function("exp_up_to_0", operand, expr.lanes, args)
        return self.calls.call(expr, [self.widened(arg, expr.lanes) for arg in expr.children])

    def _call_in_float32(self, expr: Call) -> str:
        """Compute a function of half floats in float32 and round its value once."""
        single = "bool" if expr.dtype == dtypes.BOOL else "float32"
        wide = Call(expr.name, tuple(cast("float32", arg) for arg in expr.children), single)
        return self.value(cast(expr.dtype, wide))

    def load_lane(self, load: Load, lane: int) -> str:
        """Operand text of lane `lane` of a load."""
        if load.lanes == 1:
            return self.value(load)
        if self.masks.mask is None:
            return self.memory.load_consecutive(load.buffer, self.index.form(load.index, lane), 1)
        kind = llvm_type(load.dtype, load.lanes)
        return self.builder.define(f"extractelement {kind} {self.value(load)}, i64 {lane}")

    # -- choices -------------------------------------------------------------------------------

    def _select(self, expr: Select) -> str:
        kind = llvm_type(expr.dtype, expr.lanes)
        condition = self.value(expr.condition)
        true, false = self.widened(expr.true, expr.lanes), self.widened(expr.false, expr.lanes)
        return self.builder.select(condition, expr.condition.lanes, kind, true, false)

    def _short_circuit(self, expr: BinaryOp) -> str:
        """Return a logical operation whose second operand is evaluated only if it is needed."""
        kind = llvm_type(dtypes.BOOL, expr.lanes)
        decided = const_text(expr.op == "or", dtypes.BOOL, expr.lanes)
        sides = (lambda: self.value(expr.b)), (lambda: decided)
        true, false = sides if expr.op == "and" else sides[::-1]
        return self._either(self.value(expr.a), expr.a.lanes, kind, true, false)

    def _if_then_else(self, expr: Call) -> str:
        condition, true, false = expr.children
        test = self.value(condition)
        lanes = condition.lanes
        is_constant = isinstance(false, Broadcast) and isinstance(false.value, Const)
        if isinstance(true, Load) and true.lanes == lanes > 1 and is_constant:
            others, found = self.value(false), None
            if others != const_text(0, expr.dtype, lanes):  # LLVM would put zeros there itself
                with self.masks.masked(test, lanes):
                    found = self.memory.load_or(true, others)
            if found is not None:
                return found
        return self._either(
            test,
            lanes,
            llvm_type(expr.dtype, expr.lanes),
            lambda: self.widened(true, expr.lanes),
            lambda: self.widened(false, expr.lanes),
        )

    def _either(
        self, test: str, lanes: int, kind: str, true: Callable[[], str], false: Callable[[], str]
    ) -> str:
        """Return one of two values, each loaded only if it is chosen: in a branch, or by a mask."""
        if lanes == 1:
            return self.builder.choose(test, kind, true, false)
        mask = vector_of("i1", lanes)
        with self.masks.masked(test, lanes):
            first = true()
        negated = self.builder.define(f"xor {mask} {test}, {const_text(True, dtypes.BOOL, lanes)}")
        with self.masks.masked(negated, lanes):
            second = false()
        return self.builder.select(test, lanes, kind, first, second)


def _of_lesser_of_0(expr: Expr) -> Expr | None:
    """Return x if an expression is the lesser of x and 0."""
    if not isinstance(expr, BinaryOp) or expr.op != "min":
        return None
    bound = expr.b.value if isinstance(expr.b, Broadcast) else expr.b
    return expr.a if is_const(bound, 0) else None
