"""How the configurations of a call get their results: measured, simulated, or of a single run.

In: the problem of a call, its restrictions and its search. Out: results by their keys, or what the
arguments are afterwards. Read `measuring.py` first.
"""
