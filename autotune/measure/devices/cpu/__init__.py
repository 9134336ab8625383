"""Runs and times candidates on the processor.

In: machine code of candidates. Out: times and verdicts, and what the machine can do at best. Read
`cpu_bench.py` first.
"""
