"""Timing kernels in a runner process: one alone, or several in turns, and how noisy the machine is.

In: calls without arguments, and a `TimingPolicy`. Out: seconds per call. Read `kernel_timing.py`
first.
"""
