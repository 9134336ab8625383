"""Parts of schedules for GPUs that templates and Tile functions share.

In: stages and knobs. Out: the same stages, scheduled. Read `gpu_loops.py` first.
"""
