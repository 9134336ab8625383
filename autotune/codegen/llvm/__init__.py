"""LLVM assembly from a lowered function in its final form: vectors, unrolling, threads."""

from autotune.codegen.llvm.module import LLVMSource, emit

__all__ = ["LLVMSource", "emit"]
