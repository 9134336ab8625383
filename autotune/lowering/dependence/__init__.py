"""Dependence analysis: which memory accesses may touch the same element.

In: statements and the loops around them. Out: their reads and writes, and whether two of them
conflict. Read `accesses.py` first.
"""
