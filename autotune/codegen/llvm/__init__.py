"""LLVM assembly from a lowered function in its final form: vectors, unrolling, threads.

In: a function. Out: the text of a module and its external requirements. Read `emitter.py`
first, which puts the parts together: statements, expressions, index arithmetic (`index/`), memory
access (`memory/`), vectors, conversions, parallel regions.
"""

from autotune.codegen.llvm.emitter import LLVMSource, emit

__all__ = ["LLVMSource", "emit"]
