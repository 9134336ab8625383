"""CUDA C++ for the kernels of a function.

In: a function in its final form for GPUs. Out: one source text and the launch of each kernel. Read
`cuda_source.py` first.
"""
