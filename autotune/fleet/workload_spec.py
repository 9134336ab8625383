"""What a runner on another machine has to know of a workload, as plain data."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from autotune.measure.timing_policy import TimingPolicy
from autotune.operators.template_lookup import names_file, names_tile
from autotune.task.task import Task


@dataclass(frozen=True)
class WorkloadSpec:
    """A workload, and how its candidates are measured."""

    reference: str  # Of the template: a name, ``path/to/file.py:function`` or a Tile file.
    text: bytes | None  # Of the template's file, which need not exist on the other machine.
    args: Mapping[str, Any]
    target: str
    constant: tuple[int, ...]
    policy: TimingPolicy
    timeout_s: float
    seed: int

    @classmethod
    def of(cls, task: Task, policy: TimingPolicy, timeout_s: float, seed: int) -> WorkloadSpec:
        """Return what describes a task; `Target.recorded` leaves out which GPU of a machine.

        UsageError if no text can give its template.
        """
        reference, text = task.worker_source
        path = _file_of(reference)
        if path is not None:
            text = path.read_bytes() if text is None else text
            # Files beside it are found from there, where machines share their files.
            reference = reference.replace(str(path), os.path.abspath(path), 1)
        target, constant = task.target.recorded, tuple(task.constant)
        return cls(reference, text, dict(task.args), target, constant, policy, timeout_s, seed)

    @cached_property
    def key(self) -> str:
        """A digest that tells workloads apart."""
        parts = (self.reference, self.text, sorted(self.args.items()), self.target, self.constant)
        how = (self.policy.to_json(), self.timeout_s, self.seed)
        return hashlib.sha256(repr((parts, how)).encode()).hexdigest()[:16]


def _file_of(reference: str) -> Path | None:
    """Return the file that a reference names; None if it is the name of a template."""
    if names_tile(reference):
        return Path(reference)
    if names_file(reference):
        return Path(reference.rpartition(":")[0])
    return None
