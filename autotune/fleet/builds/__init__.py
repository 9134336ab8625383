"""Builds candidates on any node of the cluster, in tasks that need no device.

In: a configuration, and facts of the device that runs it. Out: its machine code, which goes from
the builder to the runner, and the result or error of the build. Read `builds.py` first, which is
the tuner's part; `builder_task.py` runs on the nodes.
"""
