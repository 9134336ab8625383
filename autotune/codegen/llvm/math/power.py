"""pow: exp2(y log2(|x|)) with an extended-precision logarithm, and C's special cases.

float32 is computed in float64. In float64 the logarithm is a pair, because the relative error of
the result is up to a thousand times that of the exponent.
"""

from __future__ import annotations

import math

from autotune.codegen.llvm.math import double_double, logarithm
from autotune.codegen.llvm.math.double_double import Pair
from autotune.codegen.llvm.math.exponential import expm1_near_0
from autotune.codegen.llvm.math.exponential import scaled as times_power_of_two
from autotune.codegen.llvm.math.math_writer import MathWriter
from autotune.codegen.llvm.math.polynomial_coefficients import (
    INVERSE_LN2,
    LN2,
    TWO_THIRDS,
    interpolated,
    log_ratio_rest,
)

#: Exponents of 2 beyond which a power is 0 or infinite, by target format.
_LARGEST_EXPONENT = {"float32": 200.0, "float64": 1100.0}
#: An exponent y that makes any power but that of 1 overflow or vanish.
_LARGEST_Y = 2.0**66
#: Coefficients of exp and log in float64 that leave less than 2**-8 units in float32's last place.
_EXP_TERMS, _LOG_TERMS = 6, 5


def power(w: MathWriter, x: str, y: str) -> str:
    """Return x to the power y."""
    a, bounded = w.absolute(x), w.clamp(y, -_LARGEST_Y, _LARGEST_Y)
    core = _single if w.form.dtype == "float32" else _double
    return _corner_cases(w, x, y, a, core(w, a, bounded))


def _single(w: MathWriter, a: str, y: str) -> str:
    """Return a ** y for positive finite float32 a, by way of float64."""
    d = w.doubled()
    p = logarithm.parts(d, w.extended(a))
    s = d.div(p.f, d.add(p.f, d.number(2.0)))
    z = d.mul(s, s)
    q = d.mul(z, d.polynomial(z, logarithm.coefficients(_LOG_TERMS)))
    log = d.add(d.mul(s, q), d.add(s, s))
    log2 = d.add(d.mul(log, d.number(float(INVERSE_LN2))), p.exponent)
    most = _LARGEST_EXPONENT["float32"]
    t = d.clamp(d.mul(log2, w.extended(y)), -most, most)
    n, whole = d.nearest(t)
    r = d.mul(d.sub(t, n), d.number(float(LN2)))
    result = d.add(expm1_near_0(d, r, _EXP_TERMS), d.number(1.0))
    return w.rounded(d.mul(result, d.power_of_two(whole)))


def _double(w: MathWriter, a: str, y: str) -> str:
    """Return a ** y for positive finite float64 a."""
    t, low = double_double.scaled(w, _precise_log2(w, a), y)
    most = _LARGEST_EXPONENT["float64"]
    bounded = w.clamp(t, -most, most)
    n, powers = w.nearest_power(bounded)
    fraction = w.sub(bounded, n)
    # Beyond the bounds `low` may be anything.
    fraction = w.choose(w.test("oeq", t, bounded), w.add(fraction, low), fraction)
    r = w.mul(fraction, w.number(float(LN2)))
    return times_power_of_two(w, expm1_near_0(w, r), n, powers)


def _precise_log2(w: MathWriter, a: str) -> Pair:
    """Return log2(a) with an error of about 2**-66 of its mantissa's part, for positive finite a.

    log(1 + f) = 2 s + s z (2/3 + z T(z)) with s = f / (2 + f) and z = s**2; only T, whose share is
    below 2**-12, is of single precision.
    """
    p = logarithm.parts(w, a)
    f = p.f
    below, below_low = double_double.ordered_sum(w, w.number(2.0), f)
    inverse = w.div(w.number(1.0), below)
    s = w.mul(f, inverse)
    back, back_low = double_double.exact_product(w, s, below)
    with w.exactly():
        left = w.sub(w.sub(f, back), back_low)
    s_low = w.mul(w.sub(left, w.mul(s, below_low)), inverse)
    z = double_double.product(w, (s, s_low), (s, s_low))
    lead, lead_low = double_double.constant(w, TWO_THIRDS)
    rest = w.polynomial(z[0], interpolated(log_ratio_rest, 0.0, logarithm.LARGEST, 8))
    c, c_low = double_double.ordered_sum(w, lead, w.mul(z[0], rest))
    c_low = w.add(c_low, lead_low)
    v = double_double.product(w, double_double.product(w, z, (c, c_low)), (s, s_low))
    high, low = double_double.ordered_sum(w, w.add(s, s), v[0])
    low = w.add(low, w.add(v[1], w.add(s_low, s_low)))
    g = double_double.product(w, (high, low), double_double.constant(w, INVERSE_LN2))
    total, rest = double_double.ordered_sum(w, p.exponent, g[0])
    return total, w.add(rest, g[1])


def _corner_cases(w: MathWriter, x: str, y: str, a: str, result: str) -> str:
    """Handle zeros, infinities, negative bases and NaN as C's pow does; a is |x|."""
    zero, one, infinity = w.number(0.0), w.number(1.0), w.number(math.inf)
    nan = w.number(math.nan)
    is_infinite = w.test("oeq", a, infinity)
    at_end = w.logic("or", w.test("oeq", a, zero), is_infinite)
    grows = w.logic("xor", is_infinite, w.test("olt", y, zero))
    result = w.choose(at_end, w.choose(grows, infinity, zero), result)
    half = w.mul(y, w.number(0.5))
    whole = w.test("oeq", w.intrinsic("floor", y), y)
    odd = w.logic("and", whole, w.test("une", w.intrinsic("floor", half), half))
    result = w.choose(odd, w.with_sign(result, x), result)
    real = w.logic("or", w.logic("or", whole, is_infinite), w.test("uge", x, zero))
    result = w.choose(real, result, nan)
    result = w.choose(w.test("uno", x, y), nan, result)
    always = w.logic("or", w.test("oeq", y, zero), w.test("oeq", x, one))
    return w.choose(always, one, result)
