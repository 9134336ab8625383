"""Links object code into shared libraries without the system's linker (ELF for x86-64 only).

In: object files as LLVM writes them. Out: the bytes of a shared library. Read `linker.py` first.
Sources of formats and formulas: the System V ABI, "Object Files" and "Dynamic Linking", and its
AMD64 supplement, section 4.4 (relocation), large code model.
"""
