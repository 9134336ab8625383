"""Guards: passes that prove and remove them, move them, or split loops at them.

In: a function with conditions. Out: the same function with fewer conditions in inner loops. Read
`facts.py` first, then `loop_partition.py`.
"""
