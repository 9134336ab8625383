"""What a person sees of a run: numbers first, as data, then their drawing.

In: events and results. Out: text, tables, pictures, JSON. Read `progress.py` first;
`display/` draws on a terminal.
"""
