"""Helpers under the module names that Kernel Tuner gives them.

In: programs with marked regions. Out: texts of functions, and arguments for them. Read
`directives.py`.
"""
