"""Guards: proved away, moved outwards or inwards, or decided by splitting loops.

In: a function with conditions. Out: the same function with fewer conditions in inner loops. Read
`facts.py` first, then `loop_partition.py`.
"""
