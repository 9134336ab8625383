"""The checks of `autotune doctor`.

In: nothing. Out: findings, each with what to do. Read `finding.py` first.
"""
