"""Operators whose steps need the step before: running sums, recurrences, recurrent cells.

In: sizes and types. Out: a `Template` per file. Read `cumsum.py` first.
"""
