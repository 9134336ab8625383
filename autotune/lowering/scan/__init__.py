"""Loops over the steps of scans: their order, and states in registers.

In: a function whose scans are loops over steps. Out: the same function with loops interchanged
or fused, or with states in local arrays. Read `loop_interchange.py` first.
"""
