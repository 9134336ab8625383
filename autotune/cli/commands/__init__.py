"""One file per command of `autotune`; `bench_*` are parts of `bench`.

In: options that have been read. Out: text and an exit code. Read `run.py` first.
"""
