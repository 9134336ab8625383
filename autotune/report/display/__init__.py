"""Shows a run while it goes on: a panel on a terminal, plain lines, or lines of JSON.

In: events of a run. Out: text on a stream. Read `run_display.py` first.
"""
