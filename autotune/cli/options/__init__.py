"""From arguments, job files and config.toml to options that have been checked.

In: arguments and files. Out: options, tasks and plans of runs. Read `run_options.py` first.
"""
