"""Tuning on several devices: candidates run at the same time, and end in any order.

In: what a session takes, with a measurer of several devices. Out: a session whose loop never waits
for a whole batch. Read `parallel_session.py` first.
"""
