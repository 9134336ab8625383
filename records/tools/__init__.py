"""Tools for whole logs: merge, compact, prune and compare them, a line at a time.

In: logs, of which few lines are in memory at a time. Out: a new log, or what was found. Lines are
copied as they are, so that nothing that a later version wrote is lost. Read `log_lines.py` first.
"""
