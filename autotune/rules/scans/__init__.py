"""Rules for scans on CPUs: associative ones by columns or blocks, others by tiles in each step.

In: the scans of a computation. Out: the stages that replace them, and their loops. Read
`associative_scans.py` first, then `cells.py`.
"""
