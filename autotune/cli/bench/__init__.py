"""What `autotune bench` measures.

In: lines of configurations. Out: their measurements. Read `bench_plan.py` first.
"""
