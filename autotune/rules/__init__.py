"""Schedule rules: from any graph of tensor expressions to a schedule whose decisions are knobs.

In: the output tensors of a computation, and `cfg`, which defines knobs. Out: a schedule, whose
outputs take the place of the given ones. Read `apply_rules.py` first.
"""

from autotune.rules.apply_rules import schedule, scheduled_outputs

__all__ = ["schedule", "scheduled_outputs"]
