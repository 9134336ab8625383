"""What `autotune bench` measures.

In: the configurations of each line of a plot. Out: their measurements. Read `bench_plan.py` first.
"""
