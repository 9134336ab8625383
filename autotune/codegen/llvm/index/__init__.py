"""Index arithmetic: expressions over loop variables as linear forms, and these as instructions.

In: integer expressions. Out: linear forms over 64-bit values, and their operand text. Read
`linear_forms.py` first, then `linear_arithmetic.py` and `index_arithmetic.py`.
"""
