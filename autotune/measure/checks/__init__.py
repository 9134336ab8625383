"""Checks whether a kernel computes the right answer: the inputs, and the allowed errors.

In: a workload's arguments and its reference. Out: *checks*, each with inputs, right answers and the
error that each element may have. Read `check_cases.py` first; docs/measuring.md has the formulas.
"""
