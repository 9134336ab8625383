"""Computes constants and polynomials in 60-digit arithmetic, so that no table is needed.

A polynomial equals its function at the Chebyshev nodes of an interval. Its error is only a few
times that of the minimax polynomial.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from functools import cache

_CONTEXT = Context(prec=60)
LN2 = Decimal(2).ln(_CONTEXT)
INVERSE_LN2 = _CONTEXT.divide(Decimal(1), LN2)
TWO_THIRDS = _CONTEXT.divide(Decimal(2), Decimal(3))

Real = Callable[[Decimal], Decimal]


@cache
def interpolated(function: Real, low: float, high: float, count: int) -> tuple[float, ...]:
    """Coefficients of the polynomial through `count` points of `function`, the constant first.

    `function`: decimal to Decimal; runs with 60 digits.
    `low`, `high`: the interval.
    `count`: number of coefficients, one more than the degree.
    """
    with localcontext(_CONTEXT):
        middle, half = Decimal((low + high) / 2), Decimal((high - low) / 2)
        nodes = [
            middle + half * Decimal(math.cos(math.pi * (2 * k + 1) / (2 * count)))
            for k in range(count)
        ]
        # Newton's divided differences, then the products multiplied out.
        differences = [function(node) for node in nodes]
        for order in range(1, count):
            for i in range(count - 1, order - 1, -1):
                rise = differences[i] - differences[i - 1]
                differences[i] = rise / (nodes[i] - nodes[i - order])
        total = [differences[-1]]
        for i in range(count - 2, -1, -1):
            shifted = [Decimal(0), *total]
            for k, coefficient in enumerate(total):
                shifted[k] -= nodes[i] * coefficient
            shifted[0] += differences[i]
            total = shifted
        return tuple(map(float, total))


def split(value: Decimal, widths: tuple[int, ...]) -> list[float]:
    """Write `value` as a sum of float64 parts with the given numbers of bits, and a rest.

    Parts of few bits times a small integer are exact.
    """
    with localcontext(_CONTEXT):
        parts = []
        for width in widths:
            scale = Decimal(2) ** (width - math.frexp(float(value))[1])
            part = (value * scale).to_integral_value() / scale
            parts.append(float(part))
            value -= part
        return [*parts, float(value)]


def expm1_over_square(r: Decimal) -> Decimal:
    """(exp(r) - 1 - r) / r**2."""
    return (r.exp() - 1 - r) / (r * r) if r else Decimal("0.5")


def exp2m1_over_x(x: Decimal) -> Decimal:
    """(2**x - 1) / x."""
    return ((x * LN2).exp() - 1) / x if x else LN2


def log_ratio(z: Decimal) -> Decimal:
    """(log((1 + s) / (1 - s)) - 2 s) / s**3 at z = s**2."""
    if not z:
        return TWO_THIRDS
    s = z.sqrt()
    return (((1 + s) / (1 - s)).ln() - 2 * s) / (s * z)


def log_ratio_rest(z: Decimal) -> Decimal:
    """(log_ratio(z) - 2/3) / z."""
    return (log_ratio(z) - TWO_THIRDS) / z if z else Decimal(2) / 5


def sine_rest(z: Decimal) -> Decimal:
    """(sin(r) - r) / r**3 at z = r**2."""
    return _alternating(z, 3)


def cosine_rest(z: Decimal) -> Decimal:
    """(cos(r) - 1 + r**2 / 2) / r**4 at z = r**2."""
    return -_alternating(z, 4)


def _alternating(z: Decimal, first: int) -> Decimal:
    """Sum of -1 / first!, + z / (first + 2)!, - z**2 / (first + 4)!, ..."""
    term = Decimal(-1) / math.factorial(first)
    total, k = Decimal(0), first
    while total + term != total:
        total += term
        term *= -z / ((k + 1) * (k + 2))
        k += 2
    return total


def erf(x: Decimal) -> Decimal:
    """Error function by its Taylor series, for |x| up to 6."""
    term = total = x
    k = 0
    while total + term != total or not k:
        k += 1
        term *= -x * x / k
        total += term / (2 * k + 1)
    return 2 * total / pi().sqrt()


def pi_digits(bits: int) -> int:
    """Pi times 2**bits, rounded down up to an error in the last few bits (Machin's formula)."""
    unit = 1 << bits + 32

    def arctangent_of_inverse(n: int) -> int:
        total, power, k = 0, unit // n, 1
        while power:
            total += (power // k) * (1 if k % 4 == 1 else -1)
            power //= n * n
            k += 2
        return total

    return 4 * (4 * arctangent_of_inverse(5) - arctangent_of_inverse(239)) >> 32


@cache
def pi() -> Decimal:
    """Pi to 60 digits."""
    with localcontext(_CONTEXT):
        return Decimal(pi_digits(220)) / 2**220


@cache
def half_pi() -> Decimal:
    """Pi / 2 to 60 digits."""
    return _CONTEXT.divide(pi(), Decimal(2))
