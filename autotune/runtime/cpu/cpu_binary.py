"""Machine code for the processor, with everything needed to call it."""

from __future__ import annotations

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
