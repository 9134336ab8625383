"""Rules for the quotient and the remainder of one term, scale * ((atom % upper) // lower).

Each function is a rule: it returns the result, or None where the rule does not apply. Divisors are
positive constants. All rules hold for every integer value of the atom; some apply only where TVM
v0.8 would apply them, because listings and features rely on its forms.
"""

from __future__ import annotations

from collections.abc import Callable

from autotune.ir.algebra.canonical_sums import INF, Sum, Term, one_term, term_expr
from autotune.ir.expr import Expr
from autotune.ir.ops import const, fold

Forms = Callable[[Expr], Sum]


def quotient(term: Term, c: int, dtype: str) -> Term:
    """Return term // c by the first rule that applies, else the quotient as it stands."""
    return (
        quotient_of_a_multiple(term, c)
        or quotient_of_a_quotient(term, c)
        or quotient_of_a_small_remainder(term, c, dtype)
        or quotient_of_an_uneven_remainder(term, c, dtype)
        or Term(term_expr(term, 1, dtype), lower=c)
    )


def remainder(term: Term, c: int, dtype: str, form: Forms) -> Term:
    """Return term % c by the first rule that applies, else the remainder as it stands."""
    return (
        remainder_of_a_multiple(term, c)
        or remainder_of_a_quotient(term, c)
        or remainder_of_a_remainder(term, c, dtype, form)
        or remainder_of_a_small_remainder(term, c)
        or Term(term_expr(term, 1, dtype), upper=c)
    )


def quotient_of_a_multiple(term: Term, c: int) -> Term | None:
    """(x * (c * k)) // c is x * k."""
    return None if term.scale % c else term._replace(scale=term.scale // c)


def quotient_of_a_quotient(term: Term, c: int) -> Term | None:
    """((x // l) * s) // (s * k) is x // (l * k); so with x % u for x if l * k divides u."""
    lower = _divided(term, c)
    if lower is None or (term.upper != INF and term.upper % lower):
        return None
    return term._replace(scale=1, lower=lower)


def quotient_of_a_small_remainder(term: Term, c: int, dtype: str) -> Term | None:
    """(((x % u) // l) * s) // (s * k) is 0 if u <= l * k."""
    lower = _divided(term, c)
    return None if lower is None or term.upper > lower else Term(const(0, dtype))


def quotient_of_an_uneven_remainder(term: Term, c: int, dtype: str) -> Term | None:
    """(((x % u) // l) * s) // (s * k) is y // (l * k) with y = x % u."""
    lower = _divided(term, c)
    if lower is None or term.upper == INF:
        return None
    return Term(fold("%", term.atom, const(int(term.upper), dtype)), lower)


def remainder_of_a_multiple(term: Term, c: int) -> Term | None:
    """(x * (c * k)) % c is 0."""
    return None if term.scale % c else term._replace(scale=0)


def remainder_of_a_quotient(term: Term, c: int) -> Term | None:
    """((x // l) * s) % (s * k) is ((x % (l * k)) // l) * s."""
    upper = _divided(term, c)
    return None if upper is None or term.upper != INF else term._replace(upper=upper)


def remainder_of_a_remainder(term: Term, c: int, dtype: str, form: Forms) -> Term | None:
    """(((x % u) // l) * s) % (s * k) is ((x % (l * k)) // l) * s if l * k divides u."""
    upper = _divided(term, c)
    if upper is None or term.upper == INF or upper >= term.upper or term.upper % upper:
        return None
    narrowed = one_term(form(fold("%", term.atom, const(upper, dtype))), dtype)
    if term.lower != 1:
        narrowed = quotient(narrowed, term.lower, dtype)
    return narrowed.times(term.scale)


def remainder_of_a_small_remainder(term: Term, c: int) -> Term | None:
    """(((x % u) // l) * s) % (s * k) is itself if u divides l * k."""
    upper = _divided(term, c)
    return None if upper is None or upper % term.upper else term


def _divided(term: Term, c: int) -> int | None:
    """Return l * k where c is s * k, s > 0 being the scale of the term and l its `lower`."""
    if term.scale <= 0 or c % term.scale:
        return None
    return term.lower * (c // term.scale)
