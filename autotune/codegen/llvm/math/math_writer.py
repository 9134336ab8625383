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


#: Rounds towards -inf and raises no exception, as the operand of an instruction of AVX-512.
_DOWNWARDS = 9


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
        has_avx512: bool = False,
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
        #: Whether instructions of AVX-512 may be used.
        self.has_avx512 = has_avx512
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
        return MathWriter(FORMATS["float64"], self.lanes, self.lines, self.needed, self.has_avx512)

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

    def polynomial(self, x: str, coefficients: Sequence[float | str]) -> str:
        """Evaluate a polynomial, constant coefficient first, by Horner's rule.

        `coefficients`: numbers, or names of values.
        """
        first, *rest = (c if isinstance(c, str) else self.number(c) for c in coefficients[::-1])
        for coefficient in rest:
            first = self.add(self.mul(first, x), coefficient)
        return first

    def power_of_two(self, exponent: str) -> str:
        """Return 2 ** exponent for integers within the normal range."""
        biased = self.int_op("add", exponent, self.integer(self.form.bias))
        return self.as_float(self.int_op("shl", biased, self.integer(self.form.mantissa)))

    def nearest(self, x: str) -> tuple[str, str]:
        """Return the nearest integer, as float and as integer, for |x| < 2 ** (mantissa - 1).

        Other values, including NaN, give an arbitrary number.
        """
        magic = self.form.round_to_integer
        shifted = self.add(x, self.number(magic))
        whole = self.int_op("sub", self.as_int(shifted), self.integer(self.form.pattern(magic)))
        return self.sub(shifted, self.number(magic)), whole

    def nearest_power(self, x: str) -> tuple[str, tuple[str, str]]:
        """Return the nearest integer n as a float, and two powers of 2 whose product is 2 ** n.

        Both are normal numbers for any n from 2 - 2 * bias to 2 * bias. Other values, including
        NaN, give arbitrary numbers.
        """
        # The low bits of the sum are n + 2 * bias: half of them is the first exponent with its
        # bias, the rest the second. Shifts drop the bits above.
        magic = self.form.round_to_integer + 2 * self.form.bias
        shifted = self.add(x, self.number(magic))
        biased, places = self.as_int(shifted), self.integer(self.form.mantissa)
        half = self.int_op("shl", self.int_op("lshr", biased, self.integer(1)), places)
        rest = self.int_op("sub", self.int_op("shl", biased, places), half)
        n = self.sub(shifted, self.number(magic))
        return n, (self.as_float(half), self.as_float(rest))

    def nearest_shifted_power(self, x: str) -> tuple[str, str, float]:
        """Return the nearest integer n as a float, and powers of 2 whose product is 2 ** n.

        The first is a normal number for any n from -3/2 * bias to 0, the second is one constant.
        Other values, including NaN, give arbitrary numbers.
        """
        shift = (self.form.bias + 1) // 2
        # The low bits of the sum are an exponent with its bias. The shift drops those above.
        magic = self.form.round_to_integer + self.form.bias + shift
        shifted = self.add(x, self.number(magic))
        places = self.integer(self.form.mantissa)
        power = self.as_float(self.int_op("shl", self.as_int(shifted), places))
        return self.sub(shifted, self.number(magic)), power, 2.0**-shift

    # -- AVX-512 -----------------------------------------------------------------------------------

    @property
    def register_lanes(self) -> int:
        """How many values a register of AVX-512 holds."""
        return 512 // self.form.bits

    @property
    def _packed(self) -> str:
        """Type of a register in names of instructions."""
        return "ps" if self.form.bits == 32 else "pd"

    def scaled_by_floor(self, value: str, n: str) -> str:
        """Return value * 2 ** floor(n), rounded once."""
        return self._with_rounding("scalef", value, n)

    def within_one(self, x: str) -> str:
        """Clamp `x` to [-1, 1]; a NaN gives a number."""
        # The least magnitude, with the sign of `x`.
        return self._with_rounding("range", x, self.number(1.0), "i32 2")

    def sum_rounded_down(self, a: str, b: str) -> str:
        """Return a + b, rounded towards -inf."""
        scalar = llvm_type(self.form.dtype)
        symbol = f"llvm.x86.avx512.add.{self._packed}.512"
        return self._per_register(symbol, (scalar, a), (scalar, b), f"i32 {_DOWNWARDS}")

    def beyond_multiple(self, x: str, steps: int) -> str:
        """Return x less the largest multiple of 1 / steps, a power of 2, that is not above x.

        It is 0 for infinities.
        """
        scalar, lanes = llvm_type(self.form.dtype), self.register_lanes
        symbol = f"llvm.x86.avx512.mask.reduce.{self._packed}.512"
        places = (steps - 1).bit_length()
        rest = [f"<{lanes} x {scalar}> zeroinitializer", f"i{lanes} -1", "i32 4"]
        return self._per_register(symbol, (scalar, x), f"i32 {places << 4 | 1}", *rest)

    def looked_up(self, table: Sequence[float], places: str) -> str:
        """Return elements of a table as long as a register; high bits of places do not matter."""
        scalar = llvm_type(self.form.dtype)
        numbers = [MathWriter(self.form, 1).number(value) for value in table]
        elements = ", ".join(f"{scalar} {number}" for number in numbers)
        symbol = f"llvm.x86.avx512.permvar.{'sf' if self.form.bits == 32 else 'df'}.512"
        constant = f"<{len(table)} x {scalar}> <{elements}>"
        return self._per_register(symbol, constant, (f"i{self.form.bits}", places))

    def _with_rounding(self, name: str, a: str, b: str, *immediate: str) -> str:
        """Call an intrinsic with all lanes on and the current rounding."""
        scalar, lanes = llvm_type(self.form.dtype), self.register_lanes
        symbol = f"llvm.x86.avx512.mask.{name}.{self._packed}.512"
        rest = [*immediate, f"<{lanes} x {scalar}> zeroinitializer", f"i{lanes} -1", "i32 4"]
        return self._per_register(symbol, (scalar, a), (scalar, b), *rest)

    def _per_register(self, symbol: str, *operands: str | tuple[str, str]) -> str:
        """Call an intrinsic for each register that holds some of the lanes, and join the results.

        `operands`: scalar types and values, of which each register gets its lanes, or texts that
        are the same for all of them.
        """
        size, scalar, total = self.register_lanes, llvm_type(self.form.dtype), ""
        for first in range(0, self.lanes, size):
            own = range(first, min(first + size, self.lanes))
            given = [
                o if isinstance(o, str) else self._placed(o[0], o[1], self.lanes, own, size)
                for o in operands
            ]
            types = [o.split("> ")[0] + ">" if o[0] == "<" else o.split()[0] for o in given]
            self.needed[symbol] = f"declare <{size} x {scalar}> @{symbol}({', '.join(types)})"
            result = self.define(f"call <{size} x {scalar}> @{symbol}({', '.join(given)})")
            part = self._placed(scalar, result, size, range(len(own)), self.lanes, first)
            if total:
                picks = [i if i < first else self.lanes + i for i in range(self.lanes)]
                places = ", ".join(f"i32 {i}" for i in picks)
                part = self.define(
                    f"shufflevector {total}, {part}, <{self.lanes} x i32> <{places}>"
                )
                part = f"{self.float_type} {part}"
            total = part
        return total.split()[-1]

    def _placed(
        self, scalar: str, value: str, lanes: int, own: range, size: int, at: int = 0
    ) -> str:
        """Return a vector of some size, with its type, that has some lanes of another one."""
        if lanes == size:
            return f"{vector_of(scalar, size)} {value}"
        kind = vector_of(scalar, size)
        if lanes == 1:
            made = f"insertelement {kind} poison, {scalar} {value}, i32 0"
        elif size == 1:
            made = f"extractelement {vector_of(scalar, lanes)} {value}, i32 0"
        else:
            picks = [str(own[i - at]) if 0 <= i - at < len(own) else "poison" for i in range(size)]
            places = ", ".join(f"i32 {pick}" for pick in picks)
            source = vector_of(scalar, lanes)
            made = f"shufflevector {source} {value}, {source} poison, <{size} x i32> <{places}>"
        return f"{kind} {self.define(made)}"

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
        return self.at_least(self.at_most(x, high), low)

    def at_least(self, x: str, low: float) -> str:
        """Return the greater of `x` and a number; a NaN stays a NaN."""
        least = self.number(low)
        return self.select("olt", x, least, least, x)

    def at_most(self, x: str, high: float) -> str:
        """Return the lesser of `x` and a number; a NaN stays a NaN."""
        most = self.number(high)
        return self.select("ogt", x, most, most, x)

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
