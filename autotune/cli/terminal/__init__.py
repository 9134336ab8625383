"""Streams and signals of a command.

In: lines, warnings, signals. Out: what is written, and the exit code. Read `output.py` first.
"""
