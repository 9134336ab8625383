"""log and log2: exponent plus the series of log((1 + s) / (1 - s)) for the mantissa."""

from __future__ import annotations

import math
from dataclasses import dataclass

from autotune.codegen.llvm.math.exponential import ln2_parts
from autotune.codegen.llvm.math.math_writer import MathWriter
from autotune.codegen.llvm.math.polynomial_coefficients import (
    INVERSE_LN2,
    interpolated,
    log_ratio,
    split,
)

#: Coefficients that leave less than a tenth of a unit in the last place.
_TERMS = {"float32": 4, "float64": 7}
#: Largest s**2 for a mantissa between sqrt(1/2) and sqrt(2).
LARGEST = ((math.sqrt(2) - 1) / (math.sqrt(2) + 1)) ** 2 * 1.001
#: Bits of 1 / log(2), and of its factors, such that the product is exact.
_HALF_BITS = {"float32": 12, "float64": 26}


def coefficients(terms: int) -> tuple[float, ...]:
    """Coefficients of (log((1 + s) / (1 - s)) - 2 s) / s**3 in s**2."""
    return interpolated(log_ratio, 0.0, LARGEST, terms)


@dataclass(frozen=True)
class Parts:
    """x = m 2**exponent with sqrt(1/2) <= m < sqrt(2); f = m - 1."""

    exponent: str
    f: str


def parts(w: MathWriter, x: str) -> Parts:
    """Split a positive finite number, also a subnormal one, into mantissa and exponent."""
    form = w.form
    tiny, shift = w.number(form.tiny), form.mantissa + 2
    small = w.test("olt", x, tiny)
    y = w.choose(small, w.mul(x, w.number(2.0**shift)), x)
    offset = w.choose(small, w.number(-float(shift)), w.number(0.0))
    pattern = w.as_int(y)
    above = w.int_op("sub", pattern, w.integer(form.pattern(math.sqrt(0.5))))
    e = w.int_op("ashr", above, w.integer(form.mantissa))
    m = w.as_float(w.int_op("sub", pattern, w.int_op("shl", e, w.integer(form.mantissa))))
    return Parts(w.add(w.to_float(e), offset), w.sub(m, w.number(1.0)))


def _rest(w: MathWriter, f: str) -> tuple[str, str]:
    """Return (h, g) with log(1 + f) = f - (h - g) and h = f**2 / 2.

    With s = f / (2 + f) and R = 2/3 s**2 + 2/5 s**4 + ..., g = s (h + R).
    """
    s = w.div(f, w.add(f, w.number(2.0)))
    z = w.mul(s, s)
    series = w.mul(z, w.polynomial(z, coefficients(_TERMS[w.form.dtype])))
    half = w.mul(w.mul(f, w.number(0.5)), f)
    return half, w.mul(s, w.add(half, series))


def log(w: MathWriter, x: str) -> str:
    """log(x) = e log(2) + f - (h - g), with log(2) in two parts."""
    p = parts(w, x)
    half, g = _rest(w, p.f)
    high, low = ln2_parts(w.form.dtype)
    inner = w.add(g, w.mul(p.exponent, w.number(low)))
    tail = w.sub(p.f, w.sub(half, inner))
    return _at_the_ends(w, x, w.add(w.mul(p.exponent, w.number(high)), tail))


def log2(w: MathWriter, x: str) -> str:
    """log2(x) = e + log(m) / log(2), with both factors of the product in two parts."""
    p = parts(w, x)
    half, g = _rest(w, p.f)
    bits = _HALF_BITS[w.form.dtype]
    high, low = split(INVERSE_LN2, (bits,))
    with w.exactly():
        difference = w.sub(p.f, half)
        cut = -(1 << (w.form.mantissa + 1 - bits))
        head = w.as_float(w.int_op("and", w.as_int(difference), w.integer(cut)))
        tail = w.add(w.sub(w.sub(p.f, head), half), g)
        product = w.mul(head, w.number(high))
        total = w.add(p.exponent, product)
        lost = w.add(w.sub(p.exponent, total), product)
    rest = w.mul(w.add(tail, head), w.number(low))
    rest = w.add(w.add(w.mul(tail, w.number(high)), rest), lost)
    return _at_the_ends(w, x, w.add(total, rest))


def _at_the_ends(w: MathWriter, x: str, result: str) -> str:
    infinity, zero = w.number(math.inf), w.number(0.0)
    result = w.select("oeq", x, infinity, infinity, result)
    result = w.select("oeq", x, zero, w.number(-math.inf), result)
    # Below 0, and for a NaN, the comparison fails.
    return w.select("oge", x, zero, result, w.number(math.nan))
