"""Tuners on recorded measurements: no device.

In: recorded spaces and tuners. Out: the sequence of candidates that each tuner took, or with
`recorded_task.py` a task, for what runs sessions with their logs. Read `replay_tuner.py` first.
"""
