"""Features: from lowered functions to loop nests, and to columns for whole search spaces.

In: a lowered function over knobs, or a task. Out: a `features.LoopNest`, whose fields may be
columns of all candidates. Read `to_loop_nest.py` first, then `space_features.py`.
"""
