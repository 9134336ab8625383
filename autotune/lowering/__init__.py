"""Lowers schedules to loops: first a function over knobs, then its final form.

In: a schedule (`nest/`), then knob values. Out: a function that code generators take. Read
`finalise.py` first: it lists the passes. `gpu/finalise_kernels.py` does the same for GPUs.
"""
