"""Tuners on recorded measurements: no device.

In: recorded spaces and tuners. Out: the sequence of candidates that each tuner took. Read
`replay_tuner.py` first.
"""
