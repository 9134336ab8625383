"""Lanes: masks of those that are active, vectors of 64-bit integers, comparisons lane by lane."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from autotune.codegen.llvm.index_arithmetic import Indices
from autotune.codegen.llvm.linear_forms import Linear, constant, within
from autotune.codegen.llvm.llvm_types import llvm_type, vector_of
from autotune.ir import dtypes
from autotune.ir.expr import BinaryOp, Broadcast, Cast, Expr, Load, Ramp
from autotune.ir.visitor import walk_expr

#: Comparisons of signed integers, by their name in LLVM.
SIGNED_TESTS = {"==": "eq", "!=": "ne", "<": "slt", "<=": "sle", ">": "sgt", ">=": "sge"}


@dataclass(frozen=True)
class Mask:
    """The lanes that are active.

    Attributes
    ----------
    ref : str
        Operand of type <lanes x i1>.
    lanes : int
    inhabited : bool
        Whether code under the mask only runs if at least one lane is active.
    """

    ref: str
    lanes: int
    inhabited: bool


class Vectors(Indices):
    """A writer of vectors.

    Attributes
    ----------
    mask : Mask or None
        Under a vector condition: which lanes are active.
    """

    def __init__(self) -> None:
        super().__init__()
        self.mask: Mask | None = None

    # -- masks -------------------------------------------------------------------------------------

    @contextmanager
    def masked(self, ref: str, lanes: int, inhabited: bool = False) -> Iterator[None]:
        """Write code for the lanes of a mask (among those that are active already)."""
        outer = self.mask
        with self.region():
            self.mask = Mask(ref if inhabited else self.active(ref, lanes), lanes, inhabited)
            try:
                yield
            finally:
                self.mask = outer

    def active(self, ref: str, lanes: int) -> str:
        """Lanes of the mask `ref` that are active."""
        if self.mask is None:
            return ref
        return self.define(f"and {vector_of('i1', lanes)} {self.mask.ref}, {ref}")

    def any_lane(self, ref: str, lanes: int) -> str:
        """Operand of type i1: whether a mask has an active lane."""
        symbol = f"llvm.vector.reduce.or.v{lanes}i1"
        self.declare(symbol, f"declare i1 @{symbol}(<{lanes} x i1>)")
        return self.define(f"call i1 @{symbol}(<{lanes} x i1> {ref})")

    # -- vectors of integers -----------------------------------------------------------------------

    def splat(self, ref: str, dtype: str, lanes: int) -> str:
        """Vector with the scalar `ref` in all lanes."""
        return self._repeated(ref, llvm_type(dtype), lanes)

    def _repeated(self, ref: str, scalar: str, lanes: int) -> str:
        if not ref.startswith("%"):
            return f"splat ({scalar} {ref})"
        key = ("splat", ref, lanes)
        found = self.recall(key)
        if isinstance(found, str):
            return found
        kind = vector_of(scalar, lanes)
        first = self.define(f"insertelement {kind} poison, {scalar} {ref}, i64 0")
        found = self.define(
            f"shufflevector {kind} {first}, {kind} poison, <{lanes} x i32> zeroinitializer"
        )
        self.remember(key, found, self.first)
        return found

    def offsets(self, index: Expr) -> tuple[Linear, Sequence[int]] | None:
        """Return (base, offsets) of lanes that differ by constants: lane i is base + offsets[i].

        The offsets are a range where they can be. None where lanes differ otherwise, or differ by
        what is read from memory.
        """
        if isinstance(index, Ramp):
            stride = self.form(index.stride)
            if stride.is_const:
                return self.form(index.base), _progression(stride.const, index.lanes)
        if not self.is_index(index):
            return None
        forms = self.lanes(index)
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
            first = self._repeated(self.materialise(base), "i64", lanes)
            if not any(offsets):
                return first
            return self.define(f"add <{lanes} x i64> {first}, {constants('i64', offsets)}")
        match expr:
            case BinaryOp(op="+" | "-" | "*" as op):
                a, b = self.wide(expr.a), self.wide(expr.b)
                name = {"+": "add", "-": "sub", "*": "mul"}[op]
                return self.define(f"{name} <{lanes} x i64> {a}, {b}")
            case Broadcast():
                return self._repeated(self.materialise(self.form(expr.value)), "i64", lanes)
            case Cast() if dtypes.is_index(expr.a.dtype):
                return self.wide(expr.a)
            case Load() | Cast():
                ref = self.value(expr)
                if expr.dtype == "int64":
                    return ref
                return self.define(f"sext {llvm_type(expr.dtype, lanes)} {ref} to <{lanes} x i64>")
        result = "poison"
        for lane, form in enumerate(self.lanes(expr)):
            one = self.materialise(form)
            result = self.define(f"insertelement <{lanes} x i64> {result}, i64 {one}, i64 {lane}")
        return result

    # -- comparisons -------------------------------------------------------------------------------

    def compare_lanes(self, op: str, a: Expr, b: Expr) -> str | None:
        """Compare two vectors of index arithmetic exactly; None if their own type is exact too.

        Lanes that differ by constants, as those of a guard `start + lane < n` do, compare one
        scalar with a vector of constants.
        """
        known, other = self.offsets(a), self.offsets(b)
        if known is None or other is None:
            if self._fits(a) and self._fits(b):
                return None
            kind = vector_of("i64", a.lanes)
            return self.define(f"icmp {SIGNED_TESTS[op]} {kind} {self.wide(a)}, {self.wide(b)}")
        difference = known[0] - other[0]
        # The scalar part of a - b against, in each lane, what is left of the other side.
        limits = [y - x - difference.const for x, y in zip(known[1], other[1], strict=True)]
        return self._compare_with(op, difference.variable(), limits)

    def _compare_with(self, op: str, form: Linear, limits: list[int]) -> str:
        least, most = min(limits) - 1, max(limits) + 1
        scalar = "i32" if dtypes.min_value("int32") < least and most < 2**31 else "i64"
        if scalar == "i32" and not within(form, -(2**31), 2**31 - 1):
            # Beyond all limits on its side a value compares as it did.
            form = self._extreme("min", self._extreme("max", form, constant(least)), constant(most))
        ref = self.materialise(form)
        if scalar == "i32" and not form.is_const:
            ref = self.define(f"trunc i64 {ref} to i32")
        lanes = len(limits)
        kind, value = vector_of(scalar, lanes), self._repeated(ref, scalar, lanes)
        return self.define(f"icmp {SIGNED_TESTS[op]} {kind} {value}, {constants(scalar, limits)}")

    def _fits(self, expr: Expr) -> bool:
        """Whether no lane of any part of an index expression leaves its own type."""
        for node in walk_expr(expr):
            if not dtypes.is_integer(node.dtype):
                continue  # the condition of a select, whose operands come by themselves
            low, high = int(dtypes.min_value(node.dtype)), int(dtypes.max_value(node.dtype))
            if not all(within(form, low, high) for form in self.lanes(node)):
                return False
        return True


def _progression(stride: int, lanes: int) -> Sequence[int]:
    """Multiples of a stride, as a range where that has them."""
    return range(0, stride * lanes, stride) if stride else [0] * lanes


def constants(scalar: str, values: Sequence[object]) -> str:
    """Operand text of a vector of constants."""
    return f"<{', '.join(f'{scalar} {value}' for value in values)}>"
