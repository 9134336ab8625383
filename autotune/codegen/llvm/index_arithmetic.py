"""Index expressions of the IR as linear forms: what addresses and loop bounds are made of."""

from __future__ import annotations

from autotune.codegen.llvm.function_writer import Writer
from autotune.codegen.llvm.linear_forms import (
    Atom,
    Linear,
    constant,
    non_negative,
    product_bounds,
    within,
)
from autotune.errors import CodegenError
from autotune.ir import dtypes
from autotune.ir.expr import (
    ARITHMETIC,
    BinaryOp,
    Broadcast,
    Buffer,
    Cast,
    Const,
    Expr,
    KnobVar,
    Load,
    Ramp,
    Select,
    Var,
)


class Indices(Writer):
    """A writer that knows the variables in scope and evaluates integer expressions in 64 bits.

    Attributes
    ----------
    env : dict of Var to Linear
        Loop and size variables in scope.
    buffers : dict of Buffer to str
        Base pointers in scope.
    """

    def __init__(self) -> None:
        super().__init__()
        self.env: dict[Var, Linear] = {}
        self.buffers: dict[Buffer, str] = {}
        self._index_only: dict[Expr, bool] = {}
        self._parts_of: dict[Expr, tuple[dict[Expr, int], int]] = {}

    def value(self, expr: Expr) -> str:
        """Operand text of any expression."""
        raise NotImplementedError

    def load_lane(self, load: Load, lane: int) -> str:
        """Operand text of lane `lane` of what is loaded."""
        raise NotImplementedError

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
            form = self.form(part, lane)
            const += coefficient * form.const
            for atom, c in form.terms.items():
                total = terms.pop(atom, 0) + coefficient * c
                if total:
                    terms[atom] = total
        return Linear(terms, const)

    def _parts(self, expr: Expr) -> tuple[dict[Expr, int], int]:
        """Return ({part: coefficient}, constant) of which an integer expression is the sum.

        This holds in every lane and wherever the expression stands. What is no sum is its own part.
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
                    return _combined(a, 1, b, sign), x + sign * y
                if not a or not b:
                    return _combined(a, y, b, x), x * y
        return {expr: 1}, 0

    def _part(self, expr: Expr, lane: int) -> Linear:
        """Linear form of what is no sum."""
        if not self.is_index(expr):
            return self._form(expr, lane)
        key = (expr, lane)
        found = self.recall(key)
        if not isinstance(found, Linear):
            found = self._form(expr, lane)
            self.remember(key, found)
        return found

    def lanes(self, expr: Expr) -> list[Linear]:
        """Linear form of every lane of an integer expression."""
        return [self.form(expr, lane) for lane in range(expr.lanes)]

    def _form(self, expr: Expr, lane: int) -> Linear:
        match expr:
            case Ramp():
                return self.form(expr.base) + self.form(expr.stride).scaled(lane)
            case BinaryOp() if expr.op in ARITHMETIC:
                return self._arithmetic(expr.op, self.form(expr.a, lane), self.form(expr.b, lane))
            case Select() if self.is_index(expr):
                return self._choice(expr, lane)
            case Load() if dtypes.is_integer(expr.dtype):
                return self._widened(self.load_lane(expr, lane), expr.dtype)
        if dtypes.is_integer(expr.dtype):
            return self._widened(self._lane_of(expr, lane), expr.dtype)
        raise CodegenError(f"an index must be an integer, not {expr.dtype}: {expr}")

    def _variable(self, var: Var) -> Linear:
        found = self.env.get(var)
        if found is None:
            what = "knob without a value" if isinstance(var, KnobVar) else "variable not in scope"
            raise CodegenError(f"{what}: {var.name}")
        return found

    def _lane_of(self, expr: Expr, lane: int) -> str:
        ref = self.value(expr)
        if expr.lanes == 1:
            return ref
        bits = dtypes.bits(expr.dtype)
        return self.define(f"extractelement <{expr.lanes} x i{bits}> {ref}, i64 {lane}")

    def _widened(self, ref: str, dtype: str) -> Linear:
        if dtype != "int64":
            ref = self.define(f"sext i{dtypes.bits(dtype)} {ref} to i64", "x")
        low, high = dtypes.min_value(dtype), dtypes.max_value(dtype)
        return self.atom(ref, int(low), int(high))

    def _arithmetic(self, op: str, a: Linear, b: Linear) -> Linear:
        match op:
            case "*":
                return self._product(a, b)
            case "//" | "%":
                return self._floor(op, a, b)
            case "min" | "max":
                return self._extreme(op, a, b)
        raise CodegenError(f"`{op}` has no meaning in an index")

    def _product(self, a: Linear, b: Linear) -> Linear:
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
                low, high = product_bounds(one, other)
                product = self.pure("mul nsw i64 {0}, {1}", (one, other), low, high)
                total += product.scaled(m * n)
        return total

    def _extreme(self, op: str, a: Linear, b: Linear) -> Linear:
        least, most = (a - b).bounds
        smaller, larger = (a, b) if op == "min" else (b, a)
        if most is not None and most <= 0:
            return smaller
        if least is not None and least >= 0:
            return larger
        pick = min if op == "min" else max
        (a_low, a_high), (b_low, b_high) = a.bounds, b.bounds
        low, high = self._meet(pick, a_low, b_low), self._meet(pick, a_high, b_high)
        # Of two values, one bound caps the minimum from above and the maximum from below.
        if op == "min" and high is None:
            high = a_high if a_high is not None else b_high
        if op == "max" and low is None:
            low = a_low if a_low is not None else b_low
        name = f"llvm.s{op}.i64"
        self.declare(name, f"declare i64 @{name}(i64, i64)")
        return self.pure(f"call i64 @{name}(i64 {{0}}, i64 {{1}})", (a, b), low, high)

    def _choice(self, expr: Select, lane: int) -> Linear:
        """Select by arithmetic, so that it is written as far out as its operands allow."""
        test = expr.condition
        assert isinstance(test, BinaryOp)
        excess = self.form(test.a, lane) - self.form(test.b, lane)
        excess = excess if test.op == "<" else excess + constant(-1)
        true, false = self.form(expr.true, lane), self.form(expr.false, lane)
        holds = self.pure("ashr i64 {0}, 63", (excess,), -1, 0)
        change = self.pure("and i64 {0}, {1}", (true - false, holds), None, None)
        (a, b), (c, d) = true.bounds, false.bounds
        low, high = self._meet(min, a, c), self._meet(max, b, d)
        return self.pure("add nsw i64 {0}, {1}", (false, change), low, high)

    @staticmethod
    def _meet(pick: object, a: int | None, b: int | None) -> int | None:
        if a is None or b is None:
            return None
        result: int = pick(a, b)  # type: ignore[operator]
        return result

    def declare(self, name: str, text: str) -> None:
        """Note that the module needs the declaration `text` of the symbol `name`."""
        raise NotImplementedError

    def _floor(self, op: str, a: Linear, b: Linear) -> Linear:
        if not b.is_const:
            return self._floor_by_variable(op, a, b)
        divisor = b.const
        if divisor == 0:
            raise CodegenError("an index divides by zero")
        if divisor < 0:
            result = self._floor(op, a.scaled(-1), constant(-divisor))
            return result if op == "//" else result.scaled(-1)
        whole, rest = a.split_by(divisor)
        if within(rest, 0, divisor - 1):
            return whole if op == "//" else rest
        quotient = self._divided(rest, divisor)
        return whole + quotient if op == "//" else rest - quotient.scaled(divisor)

    def _divided(self, a: Linear, divisor: int) -> Linear:
        """Floor of `a / divisor` for a positive constant divisor."""
        low, high = (None if end is None else end // divisor for end in a.bounds)
        shift = divisor.bit_length() - 1
        if divisor == 1 << shift:
            return self.pure(f"ashr i64 {{0}}, {shift}", (a,), low, high)
        if non_negative((a,)):
            return self.pure(f"udiv i64 {{0}}, {divisor}", (a,), low, high)
        # Towards zero for a >= 0; for a < 0 floor(a / d) = -1 - (-1 - a) / d = ~(~a / d).
        sign = self.pure("ashr i64 {0}, 63", (a,), -1, 0)
        positive = self.pure("xor i64 {0}, {1}", (a, sign), 0, None)
        quotient = self.pure(f"udiv i64 {{0}}, {divisor}", (positive,), 0, None)
        return self.pure("xor i64 {0}, {1}", (quotient, sign), low, high)

    def _floor_by_variable(self, op: str, a: Linear, b: Linear) -> Linear:
        # A divisor of 0 can only be an empty size, under which nothing runs: 1 avoids the trap,
        # also where the division was moved out of the loop that would not have run.
        zero = "call i64 @llvm.umax.i64(i64 {0}, i64 1)"
        self.declare("llvm.umax.i64", "declare i64 @llvm.umax.i64(i64, i64)")
        divisor = self.pure(zero, (b,), 1 if non_negative((b,)) else None, b.bounds[1])
        if non_negative((a, divisor)):
            high = a.bounds[1] if op == "//" else None
            return self.pure(
                f"u{'div' if op == '//' else 'rem'} i64 {{0}}, {{1}}", (a, divisor), 0, high
            )
        towards_zero = self.pure("sdiv i64 {0}, {1}", (a, divisor), None, None)
        rest = a - self._product(towards_zero, divisor)
        # Correct by one where the rest and the divisor differ in sign.
        signs = self.pure("xor i64 {0}, {1}", (rest, divisor), None, None)
        differ = self.pure("lshr i64 {0}, 63", (signs,), 0, 1)
        fix = self._product(
            differ, self.pure("call i64 @llvm.umin.i64(i64 {0}, i64 1)", (rest,), 0, 1)
        )
        self.declare("llvm.umin.i64", "declare i64 @llvm.umin.i64(i64, i64)")
        return towards_zero - fix if op == "//" else rest + self._product(fix, divisor)


def _combined(a: dict[Expr, int], m: int, b: dict[Expr, int], n: int) -> dict[Expr, int]:
    """Coefficients of `m` times one sum plus `n` times another."""
    result = {part: m * c for part, c in a.items() if m}
    for part, c in b.items():
        total = result.pop(part, 0) + n * c
        if total:
            result[part] = total
    return result
