"""Candidates are built anywhere in the cluster, by tasks that need no device.

In: a configuration, and facts of the device that runs it. Out: its machine code, which goes from
the builder to the runner, and how building it has ended. Read `builds.py` first, which is the
tuner's part; `builder_task.py` runs on the nodes.
"""
