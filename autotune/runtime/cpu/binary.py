"""Machine code that one process compiles and another loads, with everything needed to call it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autotune.runtime.signature import Signature
from autotune.target import Target


@dataclass(frozen=True)
class Binary:
    """An object file and what is needed to load and call it: plain data, made without arrays.

    Attributes
    ----------
    signature : Signature
        What it takes.
    target : Target
        What it was compiled for.
    entry : str
        Symbol of its entry point.
    external : tuple of str
        Functions of the system that it may call.
    uses_threads : bool
        Whether it has parallel loops, and so calls OpenMP.
    object_code : bytes
        The object file.
    """

    signature: Signature
    target: Target
    entry: str
    external: tuple[str, ...]
    uses_threads: bool
    object_code: bytes

    def to_json(self) -> dict[str, Any]:
        """Return everything but the object code as JSON data."""
        return {
            "signature": self.signature.to_json(),
            "target": str(self.target),
            "entry": self.entry,
            "external": self.external,
            "uses_threads": self.uses_threads,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], object_code: bytes) -> Binary:
        """Put together what `to_json` returned and the object code."""
        return cls(
            Signature.from_json(data["signature"]),
            Target.parse(data["target"]),
            data["entry"],
            tuple(data["external"]),
            data["uses_threads"],
            object_code,
        )
