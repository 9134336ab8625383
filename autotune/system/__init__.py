"""The machine and its processes: facts of the host, limits, interrupts, folders, supervision.

In: nothing of autotune but its errors. Out: functions that every other package may call. Read
`processes.py` first.
"""
