"""Algebra of integer expressions: canonical sums, polynomials, bounds, simplification.

In: expressions and the ranges of their variables. Out: simpler expressions, or bounds. Read
`canonical_sums.py` first, then `simplify_expr.py`.
"""
