"""Derivatives of Tile functions by reverse mode.

In: a syntax tree. Out: the syntax tree of its gradient. Read `reverse_mode.py` first.
"""
