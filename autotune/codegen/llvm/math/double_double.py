"""Arithmetic on unevaluated sums high + low of two floats, about twice as precise as one.

After T. J. Dekker, "A floating-point technique for extending the available precision" (1971).
Nothing needs a fused multiply-add; operations round one by one, so callers may contract theirs.
"""

from __future__ import annotations

from decimal import Decimal

from autotune.codegen.llvm.math.math_writer import MathWriter
from autotune.codegen.llvm.math.polynomial_coefficients import split

#: (high, low) as operand texts.
Pair = tuple[str, str]


def constant(w: MathWriter, value: Decimal) -> Pair:
    """Return a constant as a pair."""
    high, low = split(value, (w.form.mantissa + 1,))
    return w.number(high), w.number(low)


def ordered_sum(w: MathWriter, a: str, b: str) -> Pair:
    """Return a + b exactly, where |a| >= |b| or a is 0."""
    with w.exactly():
        total = w.add(a, b)
        return total, w.sub(b, w.sub(total, a))


def exact_sum(w: MathWriter, a: str, b: str) -> Pair:
    """Return a + b exactly."""
    with w.exactly():
        total = w.add(a, b)
        other = w.sub(total, a)
        return total, w.add(w.sub(a, w.sub(total, other)), w.sub(b, other))


def _halves(w: MathWriter, a: str) -> Pair:
    """Write `a` as a sum of two numbers of half its digits."""
    cut = w.integer(-(1 << (w.form.mantissa // 2 + 1)))
    head = w.as_float(w.int_op("and", w.as_int(a), cut))
    return head, w.sub(a, head)


def exact_product(w: MathWriter, a: str, b: str) -> Pair:
    """Return a * b to twice the precision, where nothing overflows or becomes subnormal."""
    with w.exactly():
        product = w.mul(a, b)
        (a1, a2), (b1, b2) = _halves(w, a), _halves(w, b)
        error = w.sub(w.mul(a1, b1), product)
        error = w.add(w.add(error, w.mul(a1, b2)), w.mul(a2, b1))
        return product, w.add(error, w.mul(a2, b2))


def product(w: MathWriter, a: Pair, b: Pair) -> Pair:
    """Multiply two pairs."""
    high, low = exact_product(w, a[0], b[0])
    return high, w.add(low, w.add(w.mul(a[0], b[1]), w.mul(a[1], b[0])))


def scaled(w: MathWriter, a: Pair, factor: str) -> Pair:
    """Multiply a pair by one float."""
    high, low = exact_product(w, a[0], factor)
    return high, w.add(low, w.mul(a[1], factor))
