"""Vectors of integers (repeated scalars, lanes that differ by constants), and masks of lanes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from autotune.codegen.llvm.function_builder import FunctionBuilder
from autotune.codegen.llvm.index.index_arithmetic import Evaluator, IndexArithmetic
from autotune.codegen.llvm.index.linear_arithmetic import LinearArithmetic
from autotune.codegen.llvm.index.linear_forms import Linear
from autotune.codegen.llvm.llvm_types import llvm_type, vector_of
from autotune.ir import dtypes
from autotune.ir.expr import BinaryOp, Broadcast, Cast, Expr, Load, Ramp


@dataclass(frozen=True)
class Mask:
    """The active lanes."""

    #: Operand of type <lanes x i1>.
    ref: str
    lanes: int
    #: Whether code under the mask only runs if at least one lane is active.
    inhabited: bool

    @property
    def behind(self) -> int:
        """Number of lanes before the first active one, if the mask is constant; else 0."""
        known = self.ref[1:-1].split(", ") if self.ref.startswith("<") else ()
        return next((n for n, lane in enumerate(known) if lane == "i1 true"), 0)


@dataclass(eq=False, repr=False)
class LaneMasks:
    """The current mask."""

    builder: FunctionBuilder
    #: The active lanes under a vector condition.
    mask: Mask | None = field(init=False, default=None)

    @contextmanager
    def masked(self, ref: str, lanes: int, inhabited: bool = False) -> Iterator[None]:
        """Write code for the lanes of a mask (among those that are active already)."""
        outer = self.mask
        with self.builder.region():
            self.mask = Mask(ref if inhabited else self.active(ref, lanes), lanes, inhabited)
            try:
                yield
            finally:
                self.mask = outer

    def active(self, ref: str, lanes: int) -> str:
        """Lanes of the mask `ref` that are active."""
        if self.mask is None:
            return ref
        return self.builder.define(f"and {vector_of('i1', lanes)} {self.mask.ref}, {ref}")

    def any_lane(self, ref: str, lanes: int) -> str:
        """Operand of type i1: whether a mask has an active lane."""
        symbol = f"llvm.vector.reduce.or.v{lanes}i1"
        self.builder.declare(symbol, f"declare i1 @{symbol}(<{lanes} x i1>)")
        return self.builder.define(f"call i1 @{symbol}(<{lanes} x i1> {ref})")


@dataclass(eq=False, repr=False)
class IntegerVectors:
    """Writes vectors that are computed from scalars."""

    builder: FunctionBuilder
    linear: LinearArithmetic
    index: IndexArithmetic
    evaluator: Evaluator

    def splat(self, ref: str, dtype: str, lanes: int) -> str:
        """Vector with the scalar `ref` in all lanes."""
        return self.repeated(ref, llvm_type(dtype), lanes)

    def repeated(self, ref: str, scalar: str, lanes: int) -> str:
        """Vector with `ref`, of the LLVM type `scalar`, in all lanes."""
        if not ref.startswith("%"):
            return f"splat ({scalar} {ref})"
        key = ("splat", ref, lanes)
        found = self.builder.recall(key)
        if isinstance(found, str):
            return found
        kind = vector_of(scalar, lanes)
        first = self.builder.define(f"insertelement {kind} poison, {scalar} {ref}, i64 0")
        found = self.builder.define(
            f"shufflevector {kind} {first}, {kind} poison, <{lanes} x i32> zeroinitializer"
        )
        self.builder.remember(key, found, self.builder.first)
        return found

    def offsets(self, index: Expr) -> tuple[Linear, Sequence[int]] | None:
        """Return (base, offsets) of lanes that differ by constants: lane i is base + offsets[i].

        The offsets are a range if possible. The result is None if lanes differ in other ways, or by
        values read from memory.
        """
        if isinstance(index, Ramp):
            stride = self.index.form(index.stride)
            if stride.is_const:
                return self.index.form(index.base), _progression(stride.const, index.lanes)
        if not self.index.is_index(index):
            return None
        forms = self.index.lanes(index)
        base, key = forms[0], forms[0].key
        if any(form.key != key for form in forms[1:]):
            return None
        offsets = [form.const - base.const for form in forms]
        steps = _progression(offsets[1], len(offsets))
        return base, steps if offsets == list(steps) else offsets

    def wide(self, expr: Expr) -> str:
        """Vector of 64-bit integers: every lane of an integer expression, computed exactly."""
        lanes = expr.lanes
        known = self.offsets(expr)
        if known is not None:
            base, offsets = known
            first = self.repeated(self.linear.materialise(base), "i64", lanes)
            if not any(offsets):
                return first
            return self.builder.define(f"add <{lanes} x i64> {first}, {constants('i64', offsets)}")
        match expr:
            case BinaryOp(op="+" | "-" | "*" as op):
                a, b = self.wide(expr.a), self.wide(expr.b)
                name = {"+": "add", "-": "sub", "*": "mul"}[op]
                return self.builder.define(f"{name} <{lanes} x i64> {a}, {b}")
            case Broadcast():
                return self.repeated(
                    self.linear.materialise(self.index.form(expr.value)), "i64", lanes
                )
            case Cast() if dtypes.is_index(expr.a.dtype):
                return self.wide(expr.a)
            case Load() | Cast():
                ref = self.evaluator.value(expr)
                if expr.dtype == "int64":
                    return ref
                return self.builder.define(
                    f"sext {llvm_type(expr.dtype, lanes)} {ref} to <{lanes} x i64>"
                )
        result = "poison"
        for lane, form in enumerate(self.index.lanes(expr)):
            one = self.linear.materialise(form)
            result = self.builder.define(
                f"insertelement <{lanes} x i64> {result}, i64 {one}, i64 {lane}"
            )
        return result


def _progression(stride: int, lanes: int) -> Sequence[int]:
    """Return multiples of a stride, as a range if possible."""
    return range(0, stride * lanes, stride) if stride else [0] * lanes


def constants(scalar: str, values: Sequence[object]) -> str:
    """Operand text of a vector of constants."""
    return f"<{', '.join(f'{scalar} {value}' for value in values)}>"
