"""What a task computes, as data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autotune.system.words import escaped
from autotune.trace.fingerprint import digest


@dataclass(frozen=True)
class Workload:
    """A workload: a template's name, all its arguments, and the positions of constant inputs."""

    template: str  # Name of the template.
    args: Mapping[str, Any]  # Arguments, defaults included.
    # Positions of the inputs that do not change, in ascending order.
    constant: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return ``{"template": str, "args": {...}}``, with "constant" where there are any."""
        data = {"template": self.template, "args": dict(self.args)}
        return {**data, "constant": list(self.constant)} if self.constant else data

    @property
    def key(self) -> str:
        """Text that identifies a workload; the order of its arguments does not matter."""
        return json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits of `key`."""
        return digest([self.key])

    def __hash__(self) -> int:
        return hash(self.key)

    def __str__(self) -> str:
        """Return it for people: one line, without flags that are off and without empty texts."""
        args = [
            f"{name}={value}"
            for name, value in self.args.items()
            if value is not False and value != ""
        ]
        if self.constant:
            args.append(f"constant={list(self.constant)}")
        return escaped(f"{self.template}({', '.join(args)})")
