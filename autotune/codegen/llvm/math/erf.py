"""erf: a polynomial near 0, and 1 - exp(-p(|x|)) with a polynomial p = -log(erfc) beyond."""

from __future__ import annotations

from decimal import Decimal
from functools import cache

from autotune.codegen.llvm.math import polynomial_coefficients
from autotune.codegen.llvm.math.exponential import reduced_exp
from autotune.codegen.llvm.math.math_writer import MathWriter

#: Least |x| for the second formula.
_BEND = 1.0
#: An argument whose erf rounds to 1.
_IS_ONE = {"float32": 4.0, "float64": 6.0}
#: Coefficients (near 0, beyond) that leave less than a tenth of a unit in the last place.
_TERMS = {"float32": (7, 9), "float64": (12, 26)}


def _near(z: Decimal) -> Decimal:
    """erf(x) / x - 1 at z = x**2."""
    x = z.sqrt()
    return (
        polynomial_coefficients.erf(x) / x - 1 if x else 2 / polynomial_coefficients.pi().sqrt() - 1
    )


def _beyond(x: Decimal) -> Decimal:
    return -(1 - polynomial_coefficients.erf(x)).ln()


@cache
def _coefficients(dtype: str) -> tuple[list[float], list[float]]:
    near, beyond = _TERMS[dtype]
    return (
        polynomial_coefficients.interpolated(_near, 0.0, _BEND**2, near),
        polynomial_coefficients.interpolated(_beyond, _BEND, _IS_ONE[dtype], beyond),
    )


def erf(w: MathWriter, x: str) -> str:
    """Error function."""
    near, beyond = _coefficients(w.form.dtype)
    a = w.absolute(x)
    small = w.add(w.mul(a, w.polynomial(w.mul(a, a), near)), a)
    one, end = w.number(1.0), w.number(_IS_ONE[w.form.dtype])
    bounded = w.select("ogt", a, end, end, a)
    n, minus_one = reduced_exp(w, w.negative(w.polynomial(bounded, beyond)))
    scale = w.power_of_two(n)
    large = w.sub(one, w.add(w.mul(minus_one, scale), scale))
    return w.with_sign(w.select("olt", a, w.number(_BEND), small, large), x)
