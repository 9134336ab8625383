"""One file per command of `autotune`; what `bench` measures is in `autotune.cli.bench`.

In: options that have been read. Out: text and an exit code. Read `run.py` first.
"""
