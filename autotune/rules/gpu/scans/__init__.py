"""Rules for scans on GPUs: associative ones in phases, and cells whose block has all of a step.

In: the scans of a computation. Out: the stages that replace them, and their loops. Read
`scan_series.py` first.
"""
