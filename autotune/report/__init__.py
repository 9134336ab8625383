"""What users see of a run: first the numbers as data, then their display.

In: events and results. Out: text, tables, pictures, JSON. Read `progress.py` first;
`display/` draws on a terminal.
"""
