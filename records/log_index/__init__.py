"""The index beside a large log, from which a look-up knows which lines to read.

In: a log. Out: a source of records that reads a few of its lines. Read `index.py` first; its tables
are in `index_tables.py`, and `index_members.py` says what the lines of a log add to them.
"""
