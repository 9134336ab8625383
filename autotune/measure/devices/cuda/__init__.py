"""Runs and times candidates on an NVIDIA GPU, which one process owns.

In: cubins of candidates. Out: times and verdicts, and what the device can do at best. Read
`cuda_bench.py` first.
"""
