"""Models that learn from measurements which candidates run fast.

In: feature rows and throughputs. Out: scores of other candidates. Read `base.py` first.
"""
