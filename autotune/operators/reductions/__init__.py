"""Operators that reduce rows, columns or windows: softmax, norms, sums, pooling.

In: sizes and types. Out: a `Template` per file. Read `softmax.py` first.
"""
