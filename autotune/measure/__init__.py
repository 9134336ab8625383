"""Measuring: worker processes build, check and time candidates for the tuning process.

In: candidates of a task. Out: results with costs in seconds, or with an error. Read `result.py`
first, then `local_measurer.py` and `scheduler.py`.
"""
