"""Search strategies without a model of their own, and those of other libraries.

In: a space and what was measured. Out: candidates to measure next. Read `baselines.py` first.
"""
