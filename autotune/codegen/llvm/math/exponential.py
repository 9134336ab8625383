"""exp, exp2, sigmoid and tanh: Cody and Waite's reduction to |r| <= log(2) / 2, and a polynomial.

Where a vector register can be a table, exp is reduced further: to a sixteenth or an eighth of that.
"""

from __future__ import annotations

import math

from autotune.codegen.llvm.math.math_writer import MathWriter
from autotune.codegen.llvm.math.polynomial_coefficients import (
    LN2,
    exp2m1_over_x,
    expm1_over_square,
    interpolated,
    split,
)

#: Coefficients of (exp(r) - 1 - r) / r**2 that leave less than a tenth of a unit in the last place.
_TERMS = {"float32": 5, "float64": 10}
#: The same for the r that a table leaves.
_TERMS_AFTER_TABLE = {"float32": 2, "float64": 6}
#: Coefficients of (2**r - 1) / r for the r that a table leaves of exponents of 2.
_TERMS_OF_EXP2 = {"float32": 3, "float64": 7}
#: Bits of log(2) that a product with any exponent, and 4 bits behind its point, keeps exact.
_LN2_BITS = {"float32": 11, "float64": 32}
#: Arguments whose exponential is 0 and infinite.
_RANGE = {"float32": (-104.0, 89.0), "float64": (-746.0, 710.0)}
#: Exponents of 2 whose power is 0 and infinite.
_RANGE_OF_EXP2 = {"float32": (-150.0, 128.0), "float64": (-1076.0, 1024.0)}
#: An argument whose tanh rounds to 1.
_TANH_IS_ONE = {"float32": 9.25, "float64": 19.5}


def _coefficients(terms: int, steps: int = 1) -> tuple[float, ...]:
    half = math.log(2) / 2 / steps
    return interpolated(expm1_over_square, -half, half, terms)


def ln2_parts(dtype: str) -> tuple[float, float]:
    """Return log(2) as a sum: the first part times any exponent is exact, the second the rest."""
    high, low = split(LN2, (_LN2_BITS[dtype],))
    return high, low


def expm1_near_0(w: MathWriter, r: str, terms: int | None = None) -> str:
    """Return exp(r) - 1 for |r| <= log(2) / 2, to the precision of the format or of the terms."""
    q = w.polynomial(r, _coefficients(terms or _TERMS[w.form.dtype]))
    return w.add(w.mul(w.mul(r, r), q), r)


def reduced_exp(w: MathWriter, x: str) -> tuple[str, str]:
    """Return (n, exp(r) - 1) with x = n log(2) + r and |r| <= log(2) / 2, n an integer."""
    n, whole = w.nearest(w.mul(x, w.number(1 / math.log(2))))
    return whole, expm1_near_0(w, _remainder(w, x, n))


def _remainder(w: MathWriter, x: str, n: str) -> str:
    """Return x - n log(2)."""
    high, low = ln2_parts(w.form.dtype)
    r = w.sub(x, w.mul(n, w.number(high)))
    return w.sub(r, w.mul(n, w.number(low)))


def scaled(w: MathWriter, beyond_1: str, n: str, powers: tuple[str, str]) -> str:
    """Return (1 + beyond_1) * 2**n, where overflow and subnormal results are right.

    Without an instruction for it the `powers`, whose product is 2**n, are two factors.
    """
    if w.has_avx512:
        return w.scaled_by_floor(w.add(beyond_1, w.number(1.0)), n)
    first, second = powers
    return w.mul(w.add(w.mul(beyond_1, first), first), second)


def exp(w: MathWriter, x: str) -> str:
    """Exponential."""
    return _by_table(w, x) if w.has_avx512 else _by_polynomial(w, x)


def _by_polynomial(w: MathWriter, x: str) -> str:
    """Exponential, with an error of about a unit in the last place at most."""
    x = w.clamp(x, *_RANGE[w.form.dtype])
    n, powers = w.nearest_power(w.mul(x, w.number(1 / math.log(2))))
    return scaled(w, expm1_near_0(w, _remainder(w, x, n)), n, powers)


def exp_up_to_0(w: MathWriter, x: str) -> str:
    """Exponential of the lesser of x and 0, in fewer instructions than that of any x."""
    x = w.at_most(x, -0.0)  # with 0 it would not be one instruction, but a comparison and a mask
    return _by_table(w, x) if w.has_avx512 else _not_positive(w, x)


def _not_positive(w: MathWriter, x: str) -> str:
    """Exponential of x <= 0, to the same precision: overflow needs no care."""
    x = w.at_least(x, _RANGE[w.form.dtype][0])
    n, power, rest = w.nearest_shifted_power(w.mul(x, w.number(1 / math.log(2))))
    near = expm1_near_0(w, _remainder(w, x, n))
    return w.mul(w.add(w.mul(near, power), power), w.number(rest))


def _by_table(w: MathWriter, x: str) -> str:
    """Exponential: 2**floor(n) * t * exp(r), where t is 2 to the fraction of n, from a table.

    Overflow, infinities and NaN are left to n, which the last instruction scales by.
    """
    steps = w.register_lanes
    # The sum has the nearest multiple of 1 / steps in its low bits.
    magic = w.number(w.form.round_to_integer / steps)
    shifted = w.add(w.mul(x, w.number(1 / math.log(2))), magic)
    n = w.sub(shifted, magic)
    r = w.within_one(_remainder(w, x, n))
    t = w.looked_up([2 ** (k / steps) for k in range(steps)], w.as_int(shifted))
    terms = _coefficients(_TERMS_AFTER_TABLE[w.form.dtype], steps)
    near = w.add(w.mul(w.polynomial(r, [1.0, *terms]), w.mul(r, t)), t)
    return w.scaled_by_floor(near, n)


def exp2(w: MathWriter, x: str) -> str:
    """Return 2 ** x."""
    return _exp2_by_table(w, x) if w.has_avx512 else _exp2_by_polynomial(w, x)


def _exp2_by_polynomial(w: MathWriter, x: str) -> str:
    """2 ** n * exp(r), where n is the integer nearest to x and r = (x - n) log(2)."""
    x = w.clamp(x, *_RANGE_OF_EXP2[w.form.dtype])
    n, powers = w.nearest_power(x)
    r = w.mul(w.sub(x, n), w.number(float(LN2)))
    return scaled(w, expm1_near_0(w, r), n, powers)


def _exp2_by_table(w: MathWriter, x: str) -> str:
    """2 ** floor(x) * t * 2 ** r, where t is 2 to a multiple of 1 / steps, from a table.

    Overflow, infinities and NaN are left to the last instruction, which scales by 2 ** floor(x).
    """
    steps = w.register_lanes
    # The sum has the multiple of 1 / steps below x in its low bits.
    shifted = w.sum_rounded_down(x, w.number(w.form.round_to_integer / steps))
    r = w.beyond_multiple(x, steps)
    t = w.looked_up([2 ** (k / steps) for k in range(steps)], w.as_int(shifted))
    terms = interpolated(exp2m1_over_x, 0, 1 / steps, _TERMS_OF_EXP2[w.form.dtype])
    return w.scaled_by_floor(w.add(w.mul(w.polynomial(r, terms), w.mul(r, t)), t), x)


def sigmoid(w: MathWriter, x: str) -> str:
    """Divide e or 1 by 1 + e with e = exp(-|x|): small results keep their digits."""
    one = w.number(1.0)
    e = _not_positive(w, w.negative(w.absolute(x)))
    return w.div(w.select("olt", x, w.number(0.0), e, one), w.add(e, one))


def tanh(w: MathWriter, x: str) -> str:
    """(exp(2a) - 1) / (exp(2a) + 1) with a = |x|, exact near 0 as exp - 1 is."""
    a = w.absolute(x)
    one = w.number(_TANH_IS_ONE[w.form.dtype])
    a = w.select("ogt", a, one, one, a)
    n, minus_one = reduced_exp(w, w.add(a, a))
    scale = w.power_of_two(n)
    rest = w.sub(scale, w.number(1.0))
    t = w.add(w.mul(minus_one, scale), rest)
    return w.with_sign(w.div(t, w.add(t, w.number(2.0))), x)
