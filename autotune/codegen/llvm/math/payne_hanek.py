"""Reduction of any float64 modulo pi / 2, after Payne and Hanek (1983), in 128-bit integers.

x = M 2**e times 2 / pi, modulo 4, needs only those bits of 2 / pi whose product with M 2**e is
neither a multiple of 4 nor negligible: a window of 192 bits in a table, at a position given by e.
No float64 is closer to a multiple of pi / 2 than 2**-61, so 128 bits of the product are enough for
a pair.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise

from autotune.codegen.llvm.math import double_double, polynomial_coefficients
from autotune.codegen.llvm.math.double_double import Pair
from autotune.codegen.llvm.math.math_writer import MathWriter

#: Zero bits before the binary point of 2 / pi, so that the window never starts before the table.
_PADDING = 64
_WORDS = 22
_TABLE = "at.two_over_pi"


@cache
def _table() -> str:
    bits = 64 * _WORDS - _PADDING
    digits = (1 << (2 * bits + 65)) // polynomial_coefficients.pi_digits(bits + 64)
    words = [digits >> 64 * (_WORDS - 1 - k) & 2**64 - 1 for k in range(_WORDS)]
    texts = ", ".join(f"i64 {word}" for word in words)
    return f"@{_TABLE} = private unnamed_addr constant [{_WORDS} x i64] [{texts}]"


def reduced(w: MathWriter, x: str, least: float) -> tuple[Pair, str]:
    """Return (r, n) with x = n pi / 2 + r modulo 2 pi, for finite x of |x| >= `least`.

    `w` writes scalar float64. For other x the result is some number.
    """
    product = _quarter_turns(w, x, least)
    whole = w.define(f"lshr i128 {product}, 126")
    fraction = w.define(f"shl i128 {product}, 2")  # of a quarter turn, as a signed number
    below = w.define(f"ashr i128 {fraction}, 127")  # all ones where it is negative
    n = w.define(f"trunc i128 {w.define(f'sub i128 {whole}, {below}')} to i64")
    flipped = w.define(f"xor i128 {fraction}, {below}")
    magnitude = w.define(f"sub i128 {flipped}, {below}")
    r = double_double.product(
        w, _as_pair(w, magnitude), double_double.constant(w, polynomial_coefficients.half_pi())
    )
    # Both change their sign with x, and r also with the fraction.
    negative = w.int_op("ashr", w.as_int(x), w.integer(63))
    n = w.int_op("sub", w.int_op("xor", n, negative), negative)
    sign = w.int_op("xor", negative, w.define(f"trunc i128 {below} to i64"))
    sign = w.int_op("and", sign, w.integer(-(2**63)))
    high, low = (w.as_float(w.int_op("xor", w.as_int(part), sign)) for part in r)
    return (high, low), n


def _quarter_turns(w: MathWriter, x: str, least: float) -> str:
    """Return |x| 2 / pi modulo 4, times 2**126, as an i128."""
    pattern = w.int_op("and", w.as_int(x), w.integer(2**63 - 1))
    w.needed["llvm.umax.i64"] = "declare i64 @llvm.umax.i64(i64, i64)"
    start = w.integer(w.form.pattern(least))
    pattern = w.define(f"call i64 @llvm.umax.i64(i64 {pattern}, i64 {start})")
    exponent = w.int_op("lshr", pattern, w.integer(52))
    # x is the mantissa times 2**e; the window starts e - 2 bits after the binary point.
    skip = _PADDING - 2 - (w.form.bias + 52)
    first = w.int_op("add", exponent, w.integer(skip))
    mantissa = w.int_op("and", pattern, w.integer(2**52 - 1))
    mantissa = w.int_op("or", mantissa, w.integer(2**52))
    top, middle, bottom = _window(w, first)
    factor = w.define(f"zext i64 {mantissa} to i128")
    parts = []
    for word in (middle, bottom):
        wide = w.define(f"zext i64 {word} to i128")
        parts.append(w.define(f"mul i128 {wide}, {factor}"))
    head = w.define(f"zext i64 {w.int_op('mul', top, mantissa)} to i128")
    head = w.define(f"shl i128 {head}, 64")
    total = w.define(f"add i128 {head}, {parts[0]}")
    return w.define(f"add i128 {total}, {w.define(f'lshr i128 {parts[1]}, 64')}")


def _window(w: MathWriter, first: str) -> list[str]:
    """Load three words of the table from bit `first` on."""
    w.needed[_TABLE] = _table()
    w.needed["llvm.fshl.i64"] = "declare i64 @llvm.fshl.i64(i64, i64, i64)"
    index = w.int_op("lshr", first, w.integer(6))
    words = []
    for k in range(4):
        place = w.int_op("add", index, w.integer(k))
        pointer = w.define(f"getelementptr inbounds i64, ptr @{_TABLE}, i64 {place}")
        words.append(w.define(f"load i64, ptr {pointer}, align 8"))
    return [
        w.define(f"call i64 @llvm.fshl.i64(i64 {a}, i64 {b}, i64 {first})")
        for a, b in pairwise(words)
    ]


def _as_pair(w: MathWriter, value: str) -> Pair:
    """Return an i128, not 0, times 2**-128, as a pair."""
    w.needed["llvm.ctlz.i128"] = "declare i128 @llvm.ctlz.i128(i128, i1)"
    zeros = w.define(f"call i128 @llvm.ctlz.i128(i128 {value}, i1 false)")
    zeros = w.define(f"and i128 {zeros}, 127")
    ahead = w.define(f"shl i128 {value}, {zeros}")
    shift = w.define(f"trunc i128 {zeros} to i64")
    parts = []
    for place, weight in ((75, 53), (22, 106)):
        bits = w.define(f"trunc i128 {w.define(f'lshr i128 {ahead}, {place}')} to i64")
        bits = w.int_op("and", bits, w.integer(2**53 - 1))
        scale = w.power_of_two(w.int_op("sub", w.integer(-weight), shift))
        parts.append(w.mul(w.to_float(bits), scale))
    return parts[0], parts[1]
