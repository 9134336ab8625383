"""Operators that multiply and sum: matrix products, convolutions, attention.

In: sizes and types. Out: a `Template` per file. Read `matmul.py` first.
"""
