"""One library for many shapes: few kernels, each for all sizes, and a rule that picks one by shape.

In: records of many shapes. Out: the kernels to keep, what each shape loses by them, and a function
that calls the right one. Read `dispatcher.py` first. `candidates.py` makes kernels for all sizes of
the configurations that were best; `comparison.py` times them in another process;
`kernel_losses.py` says what is timed and what is left out; `selection.py` chooses the smallest set;
`rule_learning.py` makes the rule, which `autotune.runtime` compiles (`dispatch_rule`).
"""
