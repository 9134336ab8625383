"""Schedule rules for GPUs: which stages a kernel computes, and its blocks, warps and threads.

In: tensors of a computation, and where knobs are defined. Out: a schedule, whose outputs take the
place of the given ones. Read `gpu_rules.py` first.
"""
