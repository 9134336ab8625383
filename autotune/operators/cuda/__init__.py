"""The built-in templates for GPUs; `autotune.operators.template_lookup` finds them.

In: arguments and `cfg`, which defines knobs. Out: a schedule and its tensors, or a kernel as text.
Read `gpu_broadcast_add.py` first.
"""
