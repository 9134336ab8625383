"""Functions for CPUs: LLVM compiles them, OpenMP runs their threads.

In: LLVM assembly. Out: machine code as bytes, and functions called with NumPy arrays. Read
`llvm_compiler.py` first.
"""
