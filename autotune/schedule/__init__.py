"""Schedules: the loops of a computation, transformed step by step by primitives.

In: the operations of tensor expressions. Out: a schedule, whose stages `autotune.lowering` turns
into loops, and its steps as plain data. Read `schedule.py` first, then `stage.py`.
"""
