"""Whether a kernel computes the right answer: what it is run on, and what error it may have.

In: a workload's arguments and its reference. Out: *looks*, each with inputs, right answers and the
error that each element may have. Read `check_cases.py` first; docs/measuring.md has the formulas.
"""
