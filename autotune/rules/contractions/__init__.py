"""Rules for contractions on CPUs: register tiles over packed panels.

In: a reduction whose operands are read often. Out: the stages that replace it, and their loops.
Read `contraction.py` first, which says how its axes are used.
"""
