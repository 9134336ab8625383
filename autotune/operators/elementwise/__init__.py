"""Operators that compute each element on its own, and transposes.

In: sizes and types. Out: a `Template` per file. Read `bias_gelu.py` first.
"""
