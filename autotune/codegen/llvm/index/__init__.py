"""Index arithmetic: converts expressions over loop variables to linear forms and instructions.

In: integer expressions. Out: linear forms over 64-bit values, and their operand text. Read
`linear_forms.py` first, then `linear_arithmetic.py` and `index_arithmetic.py`.
"""
