"""An NVIDIA GPU that a runner owns: arrays, checks, times, and what it can do at best.

In: compiled programs and arrays. Out: calls and seconds. Read `cuda_device.py` first.
"""
