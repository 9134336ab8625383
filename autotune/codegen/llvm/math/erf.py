"""erf: a polynomial near 0, and 1 - exp(-p(|x|)) with a polynomial p = -log(erfc) beyond.

Where a vector register is a table of 16 elements, there are 16 polynomials about 16 centers.
"""

from __future__ import annotations

import math
from decimal import Decimal
from functools import cache, partial

from autotune.codegen.llvm.math import polynomial_coefficients
from autotune.codegen.llvm.math.exponential import reduced_exp
from autotune.codegen.llvm.math.math_writer import MathWriter
from autotune.codegen.llvm.math.polynomial_coefficients import interpolated

#: Least |x| for the second formula.
_BEND = 1.0
#: An argument whose erf rounds to 1.
_IS_ONE = {"float32": 4.0, "float64": 6.0}
#: Coefficients (near 0, beyond) that leave less than a tenth of a unit in the last place.
_TERMS = {"float32": (7, 9), "float64": (12, 26)}

#: Distance of the 16 centers: the last one's erf rounds to 1, and 4 is nearest to it. Its multiples
#: are exact, and of such numbers it has the least rounding errors of erf at the centers.
_APART = 574990 / 2**21
#: Coefficients about each center that leave a tenth of a unit in the last place of float32.
_TERMS_ABOUT = 6


def _near(z: Decimal) -> Decimal:
    """erf(x) / x - 1 at z = x**2."""
    return polynomial_coefficients.erf(z.sqrt()) / z.sqrt() - 1


def _beyond(x: Decimal) -> Decimal:
    return -(1 - polynomial_coefficients.erf(x)).ln()


@cache
def _tables() -> list[tuple[float, ...]]:
    """Return erf(c) of centers c, and the coefficients of (erf(c + r) - erf(c)) / r - 1."""
    of, half = polynomial_coefficients.erf, _APART / 2
    rows = []
    for center in (number * _APART for number in range(16)):
        slope = partial(lambda r, c: (of(c + r) - of(c)) / r - 1, c=Decimal(center))
        terms = interpolated(slope, -half if center else 0.0, half, _TERMS_ABOUT)
        rows.append([math.erf(center), *terms])
    return list(zip(*rows, strict=True))


def erf(w: MathWriter, x: str) -> str:
    """Error function."""
    a, end = w.absolute(x), w.number(_IS_ONE[w.form.dtype])
    bounded = w.select("ogt", a, end, end, a)
    by_table = w.has_avx512 and w.form.dtype == "float32"
    return w.with_sign((_by_table if by_table else _by_two_polynomials)(w, a, bounded), x)


def _by_table(w: MathWriter, a: str, bounded: str) -> str:
    """erf(c) + (r q(r) + r) with r = |x| - c, where c is the nearest of the centers."""
    magic = w.number(w.form.round_to_integer)
    shifted = w.add(w.mul(bounded, w.number(1 / _APART)), magic)
    r = w.sub(bounded, w.mul(w.sub(shifted, magic), w.number(_APART)))
    value, *terms = (w.looked_up(table, w.as_int(shifted)) for table in _tables())
    return w.add(w.add(w.mul(w.polynomial(r, terms), r), r), value)


def _by_two_polynomials(w: MathWriter, a: str, bounded: str) -> str:
    """Evaluate a polynomial near 0, and another one in an exponential beyond."""
    terms, end = _TERMS[w.form.dtype], _IS_ONE[w.form.dtype]
    near = interpolated(_near, 0.0, _BEND**2, terms[0])
    beyond = interpolated(_beyond, _BEND, end, terms[1])
    small = w.add(w.mul(a, w.polynomial(w.mul(a, a), near)), a)
    n, minus_one = reduced_exp(w, w.negative(w.polynomial(bounded, beyond)))
    scale = w.power_of_two(n)
    large = w.sub(w.number(1.0), w.add(w.mul(minus_one, scale), scale))
    return w.select("olt", a, w.number(_BEND), small, large)
