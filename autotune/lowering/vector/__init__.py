"""Vectorization and unrolling of loops.

In: a function whose loops are marked. Out: vector loads, stores and arithmetic. Read
`vectorize.py` first.
"""
