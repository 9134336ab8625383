"""Machine code for the processor, with everything needed to call it."""

from __future__ import annotations

import json
from dataclasses import dataclass

from autotune.runtime.signature import Signature
from autotune.target import Target


@dataclass(frozen=True)
class CpuBinary:
    """An object file and what is needed to load and call it: plain data, made without arrays."""

    #: What it takes.
    signature: Signature
    #: What it was compiled for.
    target: Target
    #: Symbol of its entry point.
    entry: str
    #: Functions of the system that it may call.
    external: tuple[str, ...]
    #: Whether it has parallel loops, and so calls OpenMP.
    uses_threads: bool
    #: The object file.
    object_code: bytes

    resources = None

    def to_bytes(self) -> bytes:
        """Return all of it: a line of JSON, then the object code."""
        head = {
            "signature": self.signature.to_json(),
            "target": str(self.target),
            "entry": self.entry,
            "external": self.external,
            "uses_threads": self.uses_threads,
        }
        return json.dumps(head).encode() + b"\n" + self.object_code

    @classmethod
    def from_bytes(cls, data: bytes) -> CpuBinary:
        """Rebuild what `to_bytes` returned."""
        line, _, object_code = data.partition(b"\n")
        head = json.loads(line)
        return cls(
            Signature.from_json(head["signature"]),
            Target.parse(head["target"]),
            head["entry"],
            tuple(head["external"]),
            head["uses_threads"],
            object_code,
        )
