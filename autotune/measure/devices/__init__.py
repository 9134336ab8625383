"""What a runner does on each kind of device: checks, times, and knows its limits.

In: machine code of candidates. Out: times and verdicts. Read `cpu/cpu_bench.py` first.
"""
