"""The command line: one module per command, imported when the command runs.

In: arguments. Out: text and an exit code. Read `app.py` first, then the command in `commands/`.
"""
