"""Checks a Tile function without sizes: names, ranks, linearity, arity.

In: a syntax tree. Out: nothing, or an error that points at the mistake. Read `check_function.py`
first.
"""
