"""Binds a Tile function to the shapes and types of its inputs.

In: a checked syntax tree, shapes and types. Out: a program whose sizes, types and conversions are
all explicit. Read `bound_program.py` first, then `bind_function.py`.
"""
