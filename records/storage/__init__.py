"""Logs on disk: appending under a lock, reading, and what several runs share of a log.

In: records. Out: lines of a log that outlive a crash. Read `append_only_log.py` first, then
`journal.py`.
"""
