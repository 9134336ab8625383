"""The loop IR: expressions, statements and functions, with their verifier and interpreter.

In: Python values and nodes. Out: immutable nodes, their text, and the verifier's errors. Read
`expr.py` and `stmt.py` first; `evaluate/interpreter.py` defines what a function computes.
"""
