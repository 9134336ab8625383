"""Normal forms of integer expressions are the same in each process, also of products."""

from __future__ import annotations

from autotune.ir.algebra.polynomials import exact_quotient, normal
from autotune.ir.expr import Expr, Var


def factors(i: Var, turned: bool) -> list[Expr]:
    """Return three parts of a product, made in one order or the other."""
    if turned:
        return [i // 5, i % 3, i // 2][::-1]
    return [i // 2, i % 3, i // 5]


def test_the_order_of_factors_does_not_follow_addresses() -> None:
    kept, texts = [], set()
    for number in range(64):
        i = Var("i")
        a, b, c = factors(i, bool(number % 2))
        kept.append((a, b, c))
        texts.add(str(normal(a * b * c)))
    assert len(texts) == 1


def test_the_order_of_terms_of_a_quotient_does_not_follow_addresses() -> None:
    kept, texts = [], set()
    for number in range(64):
        i = Var("i")
        a, b, c = factors(i, bool(number % 2))
        kept.append((a, b, c))
        texts.add(str(exact_quotient((a + b + c) * 4, c * 0 + 4)))
    assert len(texts) == 1
