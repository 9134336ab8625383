"""Compiles sources and calls the result with arrays.

In: sources from `autotune.codegen`, and arrays. Out: functions that are called with arrays
(`cpu/`, `cuda/`), and saved libraries. Read `device.py` first, the interface of a kind of device,
then `signature.py` and `cpu/llvm_compiler.py`.
"""
