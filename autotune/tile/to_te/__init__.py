"""Turns bound Tile functions into tensor expressions.

In: a bound program. Out: placeholders and computes. Read `program_to_te.py` first.
"""
