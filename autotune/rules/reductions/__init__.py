"""Rules for reductions along rows and columns on CPUs, and for stages that share rows.

In: reductions without reuse of what they read. Out: the stages that replace them, and their loops.
Read `rows.py` first.
"""
