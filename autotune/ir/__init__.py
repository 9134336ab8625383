"""The loop IR: expressions, statements and functions, with their interpreter.

In: Python values and nodes. Out: immutable nodes, their text, and their simpler forms. Read
`expr.py` and `stmt.py` first; `evaluate/interpreter.py` defines what a function computes.
"""
