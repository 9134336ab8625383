"""Builds the loop nests of a schedule.

In: a schedule whose sizes may be symbolic. Out: a function with every loop, guard and allocation.
Read `lower_schedule.py` first; `bound_inference.py` finds the range of each axis.
"""
