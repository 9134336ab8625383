"""Helpers of Kernel Tuner by the place that it has them in.

In: programs with marked regions. Out: texts of functions, and arguments for them. Read
`directives.py`.
"""
