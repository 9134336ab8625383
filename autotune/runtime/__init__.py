"""Compiles sources and calls the result with arrays.

In: sources from `autotune.codegen`, and arrays. Out: functions that are called with arrays
(`cpu/`, `cuda/`), and saved libraries. Read `signature.py` first, then `cpu/llvm_compiler.py`.
"""
