"""What the commands of `autotune records` do.

In: logs, and the options that choose records of them. Out: tables, and new logs. Read
`records_list.py` first.
"""
