"""Code generation for C-like languages: names, expressions, statements, vectors by lane.

In: statements of a final function. Out: lines of C++. Read `c_statements.py` first.
"""
