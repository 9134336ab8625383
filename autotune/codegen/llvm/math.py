"""exp, log, tanh and sigmoid as LLVM functions over whole vectors, written from their series.

LLVM turns a vector exp into one library call per lane; these stay in vector registers. Largest
errors found against arbitrary precision (tests/backend/test_llvm_math.py), in units of the last
place: exp 1.1, log 0.8, tanh 2.1, sigmoid 2.4, for float32 and float64 alike. NaN, infinities,
overflow, underflow and subnormal numbers behave as the C library's.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from decimal import Context, Decimal

import numpy as np

from autotune.codegen.llvm.types import const_text, llvm_type, suffix, vector_of

_PRECISE = Context(prec=60)
_LN2 = Decimal(2).ln(_PRECISE)


@dataclass(frozen=True)
class _Format:
    """A floating-point format and the ranges of the functions in it.

    `exp_low` and `exp_high` are arguments whose exponential is 0 and infinite, `tanh_one` one
    whose tanh rounds to 1; `exp_terms` and `log_terms` are lengths of the series that leave less
    than a tenth of a unit in the last place.
    """

    dtype: str
    bits: int
    mantissa: int
    exp_low: float
    exp_high: float
    tanh_one: float
    exp_terms: int
    log_terms: int

    @property
    def bias(self) -> int:
        return (1 << (self.bits - self.mantissa - 2)) - 1

    @property
    def ln2(self) -> tuple[float, float]:
        """log(2) as a sum: the first part times any exponent is exact, the second the rest."""
        cut = 2 ** (9 if self.bits == 32 else 32)
        high = float((_LN2 * cut).to_integral_value()) / cut
        return high, float(_PRECISE.subtract(_LN2, Decimal(high)))

    @property
    def round_to_integer(self) -> float:
        """Adding this leaves the nearest integer in the low bits of the mantissa."""
        return 1.5 * 2.0**self.mantissa

    def pattern(self, value: float) -> int:
        """Bits of `value` in this format, as an integer."""
        kind = "<f" if self.bits == 32 else "<d"
        return int.from_bytes(struct.pack(kind, value), "little")


_FORMATS = {
    "float32": _Format("float32", 32, 23, -104.0, 89.0, 9.25, 7, 5),
    "float64": _Format("float64", 64, 52, -746.0, 710.0, 19.5, 13, 10),
}

#: Functions this module writes.
VECTOR_FUNCTIONS = ("exp", "log", "tanh", "sigmoid")


def function_name(name: str, dtype: str, lanes: int) -> str:
    """Symbol of the function that computes `name` on `lanes` values of `dtype`."""
    return f"at.{name}.{suffix(dtype, lanes)}"


def function_text(name: str, dtype: str, lanes: int) -> str:
    """LLVM text that defines `function_name(name, dtype, lanes)`, to be inlined."""
    writer = _MathWriter(_FORMATS[dtype], lanes)
    result = {
        "exp": writer.exp, "log": writer.log, "tanh": writer.tanh, "sigmoid": writer.sigmoid,
    }[name]("%x")  # fmt: skip
    kind = writer.float_type
    return "\n".join([
        f"define internal {kind} @{function_name(name, dtype, lanes)}({kind} %x) alwaysinline "
        "nounwind willreturn memory(none) {",
        *writer.lines,
        f"  ret {kind} {result}",
        "}",
    ])  # fmt: skip


class _MathWriter:
    """Writes the body of one function; every method returns the name of its result."""

    def __init__(self, form: _Format, lanes: int) -> None:
        self.form = form
        self.lanes = lanes
        self.float_type = llvm_type(form.dtype, lanes)
        self.int_type = vector_of(f"i{form.bits}", lanes)
        self.lines: list[str] = []

    def define(self, operation: str) -> str:
        name = f"%t{len(self.lines)}"
        self.lines.append(f"  {name} = {operation}")
        return name

    def number(self, value: float) -> str:
        rounded = float(np.dtype(self.form.dtype).type(value))
        return const_text(rounded, self.form.dtype, self.lanes)

    def integer(self, value: int) -> str:
        return const_text(value, f"int{self.form.bits}", self.lanes)

    def float_op(self, op: str, a: str, b: str) -> str:
        return self.define(f"{op} contract {self.float_type} {a}, {b}")

    def int_op(self, op: str, a: str, b: str) -> str:
        return self.define(f"{op} {self.int_type} {a}, {b}")

    def add(self, a: str, b: str) -> str:
        return self.float_op("fadd", a, b)

    def sub(self, a: str, b: str) -> str:
        return self.float_op("fsub", a, b)

    def mul(self, a: str, b: str) -> str:
        return self.float_op("fmul", a, b)

    def select(self, test: str, a: str, b: str, true: str, false: str) -> str:
        kind = self.float_type
        condition = self.define(f"fcmp {test} {kind} {a}, {b}")
        mask = vector_of("i1", self.lanes)
        return self.define(f"select {mask} {condition}, {kind} {true}, {kind} {false}")

    def as_int(self, value: str) -> str:
        return self.define(f"bitcast {self.float_type} {value} to {self.int_type}")

    def as_float(self, value: str) -> str:
        return self.define(f"bitcast {self.int_type} {value} to {self.float_type}")

    def intrinsic(self, name: str, *args: str) -> str:
        kind = suffix(self.form.dtype, self.lanes)
        operands = ", ".join(f"{self.float_type} {arg}" for arg in args)
        return self.define(f"call {self.float_type} @llvm.{name}.{kind}({operands})")

    def polynomial(self, x: str, coefficients: list[float]) -> str:
        """Horner's rule, constant coefficient first."""
        total = self.number(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            total = self.add(self.mul(total, x), self.number(coefficient))
        return total

    def power_of_two(self, exponent: str) -> str:
        """2 ** exponent for integers within the normal range."""
        biased = self.int_op("add", exponent, self.integer(self.form.bias))
        return self.as_float(self.int_op("shl", biased, self.integer(self.form.mantissa)))

    def reduced_exp(self, x: str) -> tuple[str, str]:
        """Return (n, exp(r) - 1) with x = n log(2) + r and |r| <= log(2) / 2.

        Cody and Waite's reduction, then Taylor's series. Nothing here is undefined for a NaN,
        whose n is some number.
        """
        magic = self.form.round_to_integer
        shifted = self.add(self.mul(x, self.number(1 / math.log(2))), self.number(magic))
        n = self.sub(shifted, self.number(magic))
        whole = self.int_op("sub", self.as_int(shifted), self.integer(self.form.pattern(magic)))
        high, low = self.form.ln2
        r = self.sub(x, self.mul(n, self.number(high)))
        r = self.sub(r, self.mul(n, self.number(low)))
        series = [1 / math.factorial(k) for k in range(2, self.form.exp_terms + 1)]
        q = self.polynomial(r, series)
        return whole, self.add(self.mul(self.mul(r, r), q), r)

    def exp(self, x: str) -> str:
        low, high = self.number(self.form.exp_low), self.number(self.form.exp_high)
        x = self.select("ogt", x, high, high, x)
        x = self.select("olt", x, low, low, x)
        n, minus_one = self.reduced_exp(x)
        y = self.add(minus_one, self.number(1.0))
        # In two factors, so that overflow and subnormal results come from the multiplication.
        half = self.int_op("ashr", n, self.integer(1))
        y = self.mul(y, self.power_of_two(half))
        return self.mul(y, self.power_of_two(self.int_op("sub", n, half)))

    def sigmoid(self, x: str) -> str:
        one = self.number(1.0)
        e = self.exp(self.define(f"fneg {self.float_type} {x}"))
        return self.float_op("fdiv", one, self.add(e, one))

    def tanh(self, x: str) -> str:
        """(exp(2a) - 1) / (exp(2a) + 1) with a = |x|, exact near 0 as exp - 1 is."""
        a = self.intrinsic("fabs", x)
        one = self.number(self.form.tanh_one)
        a = self.select("ogt", a, one, one, a)
        n, minus_one = self.reduced_exp(self.add(a, a))
        scale = self.power_of_two(n)
        rest = self.sub(scale, self.number(1.0))
        t = self.add(self.mul(minus_one, scale), rest)
        y = self.float_op("fdiv", t, self.add(t, self.number(2.0)))
        return self.intrinsic("copysign", y, x)

    def log(self, x: str) -> str:
        """Series of log((1 + s) / (1 - s)) with its first term written exactly in f.

        With x = m 2**e, sqrt(1/2) <= m < sqrt(2), f = m - 1 and s = f / (2 + f):
        log(x) = e log(2) + f - (f**2 / 2 - s (f**2 / 2 + R)), R = 2/3 s**2 + 2/5 s**4 + ...
        """
        form = self.form
        tiny, shift = 2.0 ** (1 - form.bias), form.mantissa + 2
        scaled = self.mul(x, self.number(2.0**shift))
        y = self.select("olt", x, self.number(tiny), scaled, x)
        offset = self.select(
            "olt", x, self.number(tiny), self.number(-float(shift)), self.number(0.0)
        )
        pattern = self.as_int(y)
        above = self.int_op("sub", pattern, self.integer(form.pattern(math.sqrt(0.5))))
        e = self.int_op("ashr", above, self.integer(form.mantissa))
        m = self.as_float(
            self.int_op("sub", pattern, self.int_op("shl", e, self.integer(form.mantissa)))
        )
        exponent = self.add(self.define(f"sitofp {self.int_type} {e} to {self.float_type}"), offset)
        f = self.sub(m, self.number(1.0))
        s = self.float_op("fdiv", f, self.add(f, self.number(2.0)))
        z = self.mul(s, s)
        series = [2 / (2 * k + 1) for k in range(1, form.log_terms + 1)]
        rest = self.mul(z, self.polynomial(z, series))
        half = self.mul(self.mul(f, self.number(0.5)), f)
        high, low = form.ln2
        inner = self.add(self.mul(s, self.add(half, rest)), self.mul(exponent, self.number(low)))
        result = self.add(self.mul(exponent, self.number(high)), self.sub(f, self.sub(half, inner)))
        infinity = self.number(math.inf)
        result = self.select("oeq", x, infinity, infinity, result)
        result = self.select("oeq", x, self.number(0.0), self.number(-math.inf), result)
        # Below 0, and for a NaN, the comparison fails.
        return self.select("oge", x, self.number(0.0), result, self.number(math.nan))
