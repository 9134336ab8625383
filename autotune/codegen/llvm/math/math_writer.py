"""Writes the instructions of one mathematical function, over any number of lanes."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from autotune.codegen.llvm.llvm_types import const_text, llvm_type, suffix, vector_of


@dataclass(frozen=True)
class Format:
    """A binary floating-point format."""

    #: Its name.
    dtype: str
    #: Its width, and how many bits of it hold the mantissa.
    bits: int
    mantissa: int

    @property
    def bias(self) -> int:
        """Bias of stored exponents."""
        return (1 << (self.bits - self.mantissa - 2)) - 1

    @property
    def tiny(self) -> float:
        """Smallest normal number."""
        return 2.0 ** (1 - self.bias)

    @property
    def round_to_integer(self) -> float:
        """Adding this leaves the nearest integer in the low bits of the mantissa."""
        return 1.5 * 2.0**self.mantissa

    def pattern(self, value: float) -> int:
        """Bits of `value` in this format, as an integer."""
        kind = "<f" if self.bits == 32 else "<d"
        return int.from_bytes(struct.pack(kind, value), "little")


FORMATS = {form.dtype: form for form in (Format("float32", 32, 23), Format("float64", 64, 52))}


class MathWriter:
    """Instructions on vectors of one format; every method returns the name of its result.

    Multiplications and additions may be fused, except inside `exactly`. LLVM may reorder nothing
    else, even if the calling code has other flags.
    """

    def __init__(
        self,
        form: Format,
        lanes: int,
        lines: list[str] | None = None,
        needed: dict[str, str] | None = None,
        has_ldexp: bool = False,
    ) -> None:
        #: The format of the values.
        self.form = form
        self.lanes = lanes
        self.float_type = llvm_type(form.dtype, lanes)
        self.int_type = vector_of(f"i{form.bits}", lanes)
        self.mask_type = vector_of("i1", lanes)
        #: The written lines.
        self.lines = [] if lines is None else lines
        #: Declarations and further functions that the text refers to, by symbol.
        self.needed = {} if needed is None else needed
        #: Whether the processor multiplies vectors by powers of two in one instruction.
        self.has_ldexp = has_ldexp
        self._flags = "contract "

    def define(self, operation: str) -> str:
        """Write an instruction and return the name of its result."""
        name = f"%t{len(self.lines)}"
        self.lines.append(f"  {name} = {operation}")
        return name

    @contextmanager
    def exactly(self) -> Iterator[None]:
        """Disable fusing in this context, as compensated sums and products require."""
        before, self._flags = self._flags, ""
        try:
            yield
        finally:
            self._flags = before

    # -- constants and conversions -----------------------------------------------------------------

    def number(self, value: float) -> str:
        """Return a floating-point constant, rounded to the format."""
        rounded = float(np.dtype(self.form.dtype).type(value))
        return const_text(rounded, self.form.dtype, self.lanes)

    def integer(self, value: int) -> str:
        """Return an integer constant as wide as the format."""
        return const_text(value, f"int{self.form.bits}", self.lanes)

    def as_int(self, value: str) -> str:
        """Reinterpret a float as its bits."""
        return self.define(f"bitcast {self.float_type} {value} to {self.int_type}")

    def as_float(self, value: str) -> str:
        """Reinterpret bits as the float they are."""
        return self.define(f"bitcast {self.int_type} {value} to {self.float_type}")

    def to_float(self, value: str) -> str:
        """Convert an integer to a float."""
        return self.define(f"sitofp {self.int_type} {value} to {self.float_type}")

    def doubled(self) -> MathWriter:
        """Return a writer of float64 for the same function."""
        return MathWriter(FORMATS["float64"], self.lanes, self.lines, self.needed, self.has_ldexp)

    def extended(self, value: str) -> str:
        """Convert a float32 to float64."""
        return self.define(f"fpext {self.float_type} {value} to {self.doubled().float_type}")

    def rounded(self, value: str) -> str:
        """Round a float64 to this format."""
        return self.define(f"fptrunc {self.doubled().float_type} {value} to {self.float_type}")

    # -- arithmetic --------------------------------------------------------------------------------

    def float_op(self, op: str, a: str, b: str) -> str:
        """Write a floating-point instruction."""
        return self.define(f"{op} {self._flags}{self.float_type} {a}, {b}")

    def int_op(self, op: str, a: str, b: str) -> str:
        """Write an integer instruction."""
        return self.define(f"{op} {self.int_type} {a}, {b}")

    def add(self, a: str, b: str) -> str:
        """Return a + b."""
        return self.float_op("fadd", a, b)

    def sub(self, a: str, b: str) -> str:
        """Return a - b."""
        return self.float_op("fsub", a, b)

    def mul(self, a: str, b: str) -> str:
        """Return a * b."""
        return self.float_op("fmul", a, b)

    def div(self, a: str, b: str) -> str:
        """Return a / b."""
        return self.float_op("fdiv", a, b)

    def negative(self, a: str) -> str:
        """Return -a."""
        return self.define(f"fneg {self.float_type} {a}")

    def intrinsic(self, name: str, *args: str) -> str:
        """Call an LLVM intrinsic whose arguments and result have this format."""
        kind = self.float_type
        symbol = f"llvm.{name}.{suffix(self.form.dtype, self.lanes)}"
        self.needed[symbol] = f"declare {kind} @{symbol}({', '.join([kind] * len(args))})"
        return self.define(f"call {kind} @{symbol}({', '.join(f'{kind} {a}' for a in args)})")

    def absolute(self, a: str) -> str:
        """Return |a|."""
        return self.intrinsic("fabs", a)

    def with_sign(self, a: str, sign: str) -> str:
        """Return |a| with the sign of `sign`."""
        return self.intrinsic("copysign", a, sign)

    def polynomial(self, x: str, coefficients: Sequence[float]) -> str:
        """Evaluate a polynomial, constant coefficient first, by Horner's rule."""
        total = self.number(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            total = self.add(self.mul(total, x), self.number(coefficient))
        return total

    def power_of_two(self, exponent: str) -> str:
        """Return 2 ** exponent for integers within the normal range."""
        biased = self.int_op("add", exponent, self.integer(self.form.bias))
        return self.as_float(self.int_op("shl", biased, self.integer(self.form.mantissa)))

    @property
    def is_whole(self) -> bool:
        """Whether vectors are those of AVX-512."""
        return self.has_ldexp and self.form.bits * self.lanes == 512

    def ldexp(self, value: str, n: str, exponent: str) -> str:
        """Return value * 2 ** n, rounded once; n is given as a float and as an integer."""
        if self.is_whole:  # without converting the integer back to a float
            return self.masked("scalef", value, n)
        kinds = f"{suffix(self.form.dtype, self.lanes)}.{suffix('int32', self.lanes)}"
        symbol, short = f"llvm.ldexp.{kinds}", vector_of("i32", self.lanes)
        self.needed[symbol] = f"declare {self.float_type} @{symbol}({self.float_type}, {short})"
        if self.form.bits > 32:
            exponent = self.define(f"trunc {self.int_type} {exponent} to {short}")
        operands = f"{self.float_type} {value}, {short} {exponent}"
        return self.define(f"call {self.float_type} @{symbol}({operands})")

    def masked(self, name: str, a: str, b: str, *immediate: int) -> str:
        """Call an intrinsic of AVX-512 with all lanes on and the current rounding."""
        kind, mask = self.float_type, f"i{self.lanes}"
        symbol = f"llvm.x86.avx512.mask.{name}.{'ps' if self.form.bits == 32 else 'pd'}.512"
        numbers = [("i32", str(number)) for number in immediate]
        rest = [(kind, "zeroinitializer"), (mask, "-1"), ("i32", "4")]
        operands = [(kind, a), (kind, b), *numbers, *rest]
        self.needed[symbol] = f"declare {kind} @{symbol}({', '.join(k for k, _ in operands)})"
        return self.define(f"call {kind} @{symbol}({', '.join(map(' '.join, operands))})")

    def nearest(self, x: str) -> tuple[str, str]:
        """Return the nearest integer, as float and as integer, for |x| < 2 ** (mantissa - 1).

        Other values, including NaN, give an arbitrary number.
        """
        magic = self.form.round_to_integer
        shifted = self.add(x, self.number(magic))
        whole = self.int_op("sub", self.as_int(shifted), self.integer(self.form.pattern(magic)))
        return self.sub(shifted, self.number(magic)), whole

    # -- choices -----------------------------------------------------------------------------------

    def test(self, relation: str, a: str, b: str) -> str:
        """Compare by one of LLVM's relations: olt, oeq, uno, ..."""
        return self.define(f"fcmp {relation} {self.float_type} {a}, {b}")

    def logic(self, op: str, a: str, b: str) -> str:
        """Combine two masks by `and`, `or` or `xor`."""
        return self.define(f"{op} {self.mask_type} {a}, {b}")

    def choose(self, mask: str, true: str, false: str) -> str:
        """Select one value where the mask is set, the other elsewhere."""
        kind = self.float_type
        return self.define(f"select {self.mask_type} {mask}, {kind} {true}, {kind} {false}")

    def select(self, relation: str, a: str, b: str, true: str, false: str) -> str:
        """Choose by a comparison."""
        return self.choose(self.test(relation, a, b), true, false)

    def clamp(self, x: str, low: float, high: float) -> str:
        """Clamp `x` to [low, high]; a NaN stays a NaN."""
        least, most = self.number(low), self.number(high)
        x = self.select("ogt", x, most, most, x)
        return self.select("olt", x, least, least, x)

    def within_one(self, x: str) -> str:
        """Clamp `x` to [-1, 1] in a vector of AVX-512; a NaN gives a number."""
        return self.masked("range", x, self.number(1.0), 2)  # the least magnitude, signs of `x`

    # -- functions ---------------------------------------------------------------------------------

    def function(self, symbol: str, arity: int, result: str, attributes: str) -> str:
        """Return the whole function, of `arity` parameters %x, %y, whose value is `result`."""
        kind = self.float_type
        parameters = ", ".join(f"{kind} {name}" for name in ("%x", "%y")[:arity])
        return "\n".join([
            f"define internal {kind} @{symbol}({parameters}) {attributes} nounwind willreturn "
            "memory(none) {",
            "entry:",
            *self.lines,
            f"  ret {kind} {result}",
            "}",
        ])  # fmt: skip
