"""Clusters of Ray on this machine, whose nodes a test adds and kills."""

from __future__ import annotations

import os
from pathlib import Path

from autotune.measure.timing_policy import TimingPolicy

QUICK = TimingPolicy(repeats=2, min_repeat_ms=0.5)
SIZES = {"m": 64, "n": 64, "k": 64}
PRETENDED = Path(__file__).parents[1] / "pretended"


class Nodes:
    """A cluster whose nodes a test adds and kills; its head runs nothing else."""

    def __init__(self, count, **head):
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 0, "include_dashboard": False, "node_name": "head", **head}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.nodes = {}
        for _ in range(count):
            self.add()

    def add(self, **more):
        name = f"n{len(self.nodes)}"
        self.nodes[name] = self.cluster.add_node(num_cpus=1, node_name=name, **more)
        return name

    def add_of_other_kind(self, machine="one-word"):
        """Add a node whose processor has another name, or is a machine of `tests/pretended`."""
        path = filter(None, [str(PRETENDED), os.environ.get("PYTHONPATH")])
        variables = {"PYTHONPATH": os.pathsep.join(path), "PRETENDED_MACHINE": machine}
        return self.add(env_vars={**variables, "OMP_THREAD_LIMIT": "8"})

    def kill(self, name):
        self.cluster.remove_node(self.nodes[name], allow_graceful=False)

    @property
    def alive(self):
        return [name for name, node in self.nodes.items() if node in self.cluster.worker_nodes]

    @property
    def address(self):
        return str(self.cluster.address)
