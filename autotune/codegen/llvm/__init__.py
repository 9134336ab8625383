"""LLVM assembly from a lowered function in its final form: vectors, unrolling, threads.

In: a function. Out: the text of a module and what it needs from outside. Read `llvm_module.py`
first, then `llvm_statements.py` and `llvm_expressions.py`.
"""

from autotune.codegen.llvm.llvm_module import LLVMSource, emit

__all__ = ["LLVMSource", "emit"]
