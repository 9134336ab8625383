"""Schedules: how a computation is carried out, changed step by step by primitives.

In: the operations of tensor expressions. Out: a schedule, whose stages `autotune.lowering` turns
into loops, and its steps as plain data. Read `schedule.py` first, then `stage.py`.
"""
