"""A tuning run: batches are proposed, measured and logged until a limit is reached.

In: tasks, tuners, a measurer and limits. Out: records in a log, and events for who watches. Read
`session.py` first; `final_comparison.py` ends a run.
"""
