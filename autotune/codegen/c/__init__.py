"""Code generation for C-like languages: names, expressions, statements, vectors by lane.

`autotune.codegen.cuda` uses it; code for CPUs is made by `autotune.codegen.llvm`.

In: statements of a final function. Out: lines of C++. Read `c_statements.py` first.
"""
