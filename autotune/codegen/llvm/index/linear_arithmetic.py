"""Arithmetic on linear forms; operations that do not fold become 64-bit instructions.

An instruction is written once, in the outermost scope that defines all its operands.
"""

from __future__ import annotations

from dataclasses import dataclass

from autotune.codegen.llvm.function_builder import FunctionBuilder
from autotune.codegen.llvm.index.linear_forms import (
    Atom,
    Linear,
    constant,
    non_negative,
    of_atom,
    within,
)
from autotune.errors import CodegenError
from autotune.ir import dtypes
from autotune.ir.algebra.canonical_sums import INF
from autotune.ir.algebra.intervals import ANYTHING, Bounds, binary_bounds, type_bounds


@dataclass(eq=False, repr=False)
class LinearArithmetic:
    """Computes with linear forms and writes their values."""

    builder: FunctionBuilder

    def atom(self, ref: str, bounds: Bounds = ANYTHING, depth: int = -1) -> Linear:
        """Linear form of the 64-bit value `ref` defined in the scope at `depth`."""
        return of_atom(Atom(ref, bounds, self.builder.scopes[depth].depth))

    def loop_variable(self, name: str, bounds: Bounds) -> tuple[Linear, dict[int, str]]:
        """Return the form of a new loop variable, and its multiples (see `Atom`)."""
        ref = f"%{self.builder.fresh(name)}"
        multiples = {1: ref}
        return of_atom(Atom(ref, bounds, self.builder.depth, multiples)), multiples

    def pure(
        self, operation: str, operands: tuple[Linear, ...], bounds: Bounds = ANYTHING
    ) -> Linear:
        """Return the form of a pure 64-bit operation, written once, as far out as possible.

        `operation` has placeholders {0}, {1}, ... for the operands.
        """
        key = (operation, *((form.key, form.const) for form in operands))
        found = self.builder.recall(key)
        if isinstance(found, Linear):
            return found
        depth = max((atom.depth for form in operands for atom in form.terms), default=0)
        refs = [self.materialise(form) for form in operands]
        result = self.atom(self.builder.define(operation.format(*refs), "x", depth), bounds, depth)
        self.builder.remember(key, result, depth)
        return result

    def materialise(self, form: Linear) -> str:
        """Return the operand text of `form` as i64; partial sums are in their own scopes."""
        if form.is_const:
            return str(form.const)
        total = ""
        depth = 0
        done: dict[Atom, int] = {}
        for atom, coefficient in sorted(
            form.terms.items(), key=lambda item: (item[0].depth, item[0].id)
        ):
            depth = max(depth, atom.depth)
            done[atom] = coefficient
            term = self._scaled(atom, coefficient)
            total = self._sum(Linear(done, 0), total, term, depth) if total else term
        if form.const:
            total = self._sum(form, total, str(form.const), depth)
        return total

    def _scaled(self, atom: Atom, coefficient: int) -> str:
        if coefficient == 1:
            return atom.ref
        if atom.multiples is not None:
            if coefficient not in atom.multiples:
                atom.multiples[coefficient] = f"%{self.builder.fresh('i')}"
            return atom.multiples[coefficient]
        product = f"mul nsw i64 {atom.ref}, {coefficient}"
        return self.builder.define_once((atom.id, coefficient), product, "i", atom.depth)

    def _sum(self, form: Linear, a: str, b: str, depth: int) -> str:
        key = ("sum", form.key, form.const)
        return self.builder.define_once(key, f"add nsw i64 {a}, {b}", "i", depth)

    def extended(self, ref: str, dtype: str) -> Linear:
        """Linear form of the integer `ref` of type `dtype`."""
        if dtype != "int64":
            ref = self.builder.define(f"sext i{dtypes.bits(dtype)} {ref} to i64", "x")
        return self.atom(ref, type_bounds(dtype))

    def narrowed(self, form: Linear, dtype: str) -> str:
        """Operand text of the value of `form` as an integer of type `dtype`, an index type."""
        if form.is_const:
            bits = dtypes.bits(dtype)
            return str((form.const + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1))
        ref = self.materialise(form)
        return ref if dtype == "int64" else self.builder.define(f"trunc i64 {ref} to i32")

    def arithmetic(self, op: str, a: Linear, b: Linear) -> Linear:
        """Linear form of `a op b`."""
        match op:
            case "*":
                return self.product(a, b)
            case "//" | "%":
                return self.floor(op, a, b)
            case "min" | "max":
                return self.extreme(op, a, b)
        raise CodegenError(f"`{op}` has no meaning in an index")

    def product(self, a: Linear, b: Linear) -> Linear:
        """Linear form of `a * b`."""
        if a.is_const:
            return b.scaled(a.const)
        if b.is_const:
            return a.scaled(b.const)
        # Distribute, so that constants of unrolled loops end in the address's constant part.
        total = a.scaled(b.const) + b.scaled(a.const) + constant(-a.const * b.const)
        for x, m in a.terms.items():
            for y, n in b.terms.items():
                first, second = sorted((x, y), key=lambda atom: atom.id)
                one, other = Linear({first: 1}, 0), Linear({second: 1}, 0)
                bounds = binary_bounds("*", first.bounds, second.bounds)
                product = self.pure("mul nsw i64 {0}, {1}", (one, other), bounds)
                total += product.scaled(m * n)
        return total

    def extreme(self, op: str, a: Linear, b: Linear) -> Linear:
        """Linear form of the smaller ("min") or larger ("max") of two values."""
        least, most = (a - b).bounds
        smaller, larger = (a, b) if op == "min" else (b, a)
        if most <= 0:
            return smaller
        if least >= 0:
            return larger
        name = f"llvm.s{op}.i64"
        self.builder.declare(name, f"declare i64 @{name}(i64, i64)")
        bounds = binary_bounds(op, a.bounds, b.bounds)
        return self.pure(f"call i64 @{name}(i64 {{0}}, i64 {{1}})", (a, b), bounds)

    def select(self, excess: Linear, true: Linear, false: Linear) -> Linear:
        """Linear form of `true` where `excess` is negative, else of `false`; without a branch."""
        holds = self.pure("ashr i64 {0}, 63", (excess,), (-1, 0))
        change = self.pure("and i64 {0}, {1}", (true - false, holds))
        (a, b), (c, d) = true.bounds, false.bounds
        return self.pure("add nsw i64 {0}, {1}", (false, change), (min(a, c), max(b, d)))

    def floor(self, op: str, a: Linear, b: Linear) -> Linear:
        """Linear form of `a // b` or `a % b`, rounded down.

        Raises CodegenError if `b` is the constant 0.
        """
        if not b.is_const:
            return self._floor_by_variable(op, a, b)
        divisor = b.const
        if divisor == 0:
            raise CodegenError("an index divides by zero")
        if divisor < 0:
            result = self.floor(op, a.scaled(-1), constant(-divisor))
            return result if op == "//" else result.scaled(-1)
        whole, rest = a.split_by(divisor)
        if within(rest, 0, divisor - 1):
            return whole if op == "//" else rest
        quotient = self._divided(rest, divisor)
        return whole + quotient if op == "//" else rest - quotient.scaled(divisor)

    def _divided(self, a: Linear, divisor: int) -> Linear:
        """Floor of `a / divisor` for a positive constant divisor."""
        bounds = binary_bounds("//", a.bounds, (divisor, divisor))
        shift = divisor.bit_length() - 1
        if divisor == 1 << shift:
            return self.pure(f"ashr i64 {{0}}, {shift}", (a,), bounds)
        if non_negative((a,)):
            return self.pure(f"udiv i64 {{0}}, {divisor}", (a,), bounds)
        # Towards zero for a >= 0; for a < 0 floor(a / d) = -1 - (-1 - a) / d = ~(~a / d).
        sign = self.pure("ashr i64 {0}, 63", (a,), (-1, 0))
        positive = self.pure("xor i64 {0}, {1}", (a, sign), (0, INF))
        quotient = self.pure(f"udiv i64 {{0}}, {divisor}", (positive,), (0, INF))
        return self.pure("xor i64 {0}, {1}", (quotient, sign), bounds)

    def _floor_by_variable(self, op: str, a: Linear, b: Linear) -> Linear:
        # A divisor of 0 can only be an empty size, for which no loop runs. The divisor 1 avoids a
        # trap if the division was moved out of such a loop.
        zero = "call i64 @llvm.umax.i64(i64 {0}, i64 1)"
        self.builder.declare("llvm.umax.i64", "declare i64 @llvm.umax.i64(i64, i64)")
        divisor = self.pure(zero, (b,), (1 if non_negative((b,)) else -INF, b.bounds[1]))
        if non_negative((a, divisor)):
            name, high = ("udiv", a.bounds[1]) if op == "//" else ("urem", INF)
            return self.pure(f"{name} i64 {{0}}, {{1}}", (a, divisor), (0, high))
        towards_zero = self.pure("sdiv i64 {0}, {1}", (a, divisor))
        rest = a - self.product(towards_zero, divisor)
        # Correct by one where the rest and the divisor differ in sign.
        signs = self.pure("xor i64 {0}, {1}", (rest, divisor))
        differ = self.pure("lshr i64 {0}, 63", (signs,), (0, 1))
        fix = self.product(
            differ, self.pure("call i64 @llvm.umin.i64(i64 {0}, i64 1)", (rest,), (0, 1))
        )
        self.builder.declare("llvm.umin.i64", "declare i64 @llvm.umin.i64(i64, i64)")
        return towards_zero - fix if op == "//" else rest + self.product(fix, divisor)
