"""A task: one template with its arguments and target, and what it computes as data.

In: a template, arguments and a target. Out: its search space, the functions of its configurations,
why some may not be built (`Task.refusal`), and its workload, which records are found by. Read
`task.py` first.
"""

from autotune.task.task import Task

__all__ = ["Task"]
