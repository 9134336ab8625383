"""Search: strategies propose candidates and learn from what is measured.

In: a search space, a measurer and a log. Out: measurements in the log, and the best configuration.
Read `base.py` first, then `run/session.py`.
"""
