"""Code generation: text or bytes from the final form of a function.

In: a function from `autotune.lowering`. Out: LLVM assembly (`llvm/`), CUDA C++ (`cuda/`, which uses
`c/`), or a shared library (`elf/`). Read `llvm/emitter.py` first.
"""
