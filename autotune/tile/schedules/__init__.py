"""Schedules and search spaces of Tile functions, on CPUs and GPUs.

In: the tensor expressions of a bound program and `cfg`, which defines knobs. Out: a schedule.
Read `cpu_space.py` or `gpu_space.py` first.
"""
