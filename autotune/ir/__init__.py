"""The loop IR: expressions, statements, functions, and what is true of them.

In: Python values and nodes. Out: immutable nodes, their text, and the verifier's errors. Read
`expr.py` and `stmt.py` first; `evaluate/interpreter.py` defines what a function computes.
"""
