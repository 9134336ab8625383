"""Evaluates the IR: functions on NumPy arrays, and expressions over knobs on whole columns.

In: a function and arrays, or expressions and columns of knob values. Out: the arrays that it
writes, or one column per expression. Read `interpreter.py` first; of columns
`column_arithmetic.py`, then `column_programs.py`.
"""
