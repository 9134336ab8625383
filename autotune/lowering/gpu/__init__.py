"""Functions for GPUs: blocks, threads, shared memory and barriers.

In: a lowered function whose loops are bound to thread axes. Out: kernels in their final form.
Read `finalise_kernels.py` first: it lists the passes.
"""
