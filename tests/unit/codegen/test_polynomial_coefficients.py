"""Constants and polynomials that the vector functions are made of."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import pytest

from autotune.codegen.llvm.math import polynomial_coefficients
from autotune.codegen.llvm.math.polynomial_coefficients import interpolated


def value(coefficients: list[float], x: float) -> float:
    return sum(c * x**k for k, c in enumerate(coefficients))


def test_a_polynomial_of_the_same_length_comes_back() -> None:
    found = interpolated(lambda x: 3 - 2 * x + x**3, -1.0, 4.0, 4)
    assert found == pytest.approx([3, -2, 0, 1], abs=1e-30)


def test_more_coefficients_come_nearer() -> None:
    points = [-1 + k / 50 for k in range(101)]
    errors = []
    for count in (3, 6, 9):
        found = interpolated(Decimal.exp, -1.0, 1.0, count)
        errors.append(max(abs(value(found, x) - math.exp(x)) for x in points))
    # Chebyshev: 1 / (n! 2**(n - 1)) is what the best polynomial of n coefficients leaves.
    for count, error in zip((3, 6, 9), errors, strict=True):
        assert error < 3 / math.factorial(count) / 2 ** (count - 1)


def test_pi_has_the_digits_it_is_known_by() -> None:
    known = Decimal("3.1415926535897932384626433832795028841971693993751058209749")
    with localcontext(prec=60):
        assert abs(polynomial_coefficients.pi() - known) < Decimal("1e-57")
        assert abs(polynomial_coefficients.half_pi() - known / 2) < Decimal("1e-57")
    assert polynomial_coefficients.pi_digits(8) == int(math.pi * 256)


@pytest.mark.parametrize("x", [1e-9, 0.3, 1.0, 2.5, 5.9])
def test_erf_is_that_of_the_math_module(x: float) -> None:
    with localcontext(prec=60):
        assert float(polynomial_coefficients.erf(Decimal(x))) == pytest.approx(
            math.erf(x), rel=1e-15
        )
        # Near 1 the digits of what is missing count.
        assert float(1 - polynomial_coefficients.erf(Decimal(x))) == pytest.approx(
            math.erfc(x), rel=1e-14
        )


@pytest.mark.parametrize("widths", [(9,), (33, 33, 33)])
def test_parts_have_few_bits_and_add_up(widths: tuple[int, ...]) -> None:
    parts = polynomial_coefficients.split(polynomial_coefficients.LN2, widths)
    with localcontext(prec=60):
        missing = abs(sum(map(Decimal, parts)) - polynomial_coefficients.LN2)
        assert missing < Decimal(2) ** -(sum(widths) + 53)
    for part, width in zip(parts, widths, strict=False):
        numerator = part.as_integer_ratio()[0]
        assert numerator.bit_length() <= width
