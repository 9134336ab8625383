"""Tracing: runs a template with symbolic knobs, once per structure and not per candidate.

In: a template and its arguments. Out: structures (the decisions on knobs, the schedule, the
lowered function) and the search space. Read `tracer.py` first, then `symbolic_values.py`.
"""
