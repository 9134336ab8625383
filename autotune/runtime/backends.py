"""The kinds of devices.

A new kind is a folder beside this file, a line in `BACKENDS`, its source text in
`autotune.codegen`, and its options in `autotune.target`.
"""

from __future__ import annotations

from autotune.runtime.cpu import cpu_backend
from autotune.runtime.cuda import cuda_backend
from autotune.runtime.device import Backend
from autotune.target import Target

#: By the kind of a target; "llvm" also where a target for GPUs runs on the processor.
BACKENDS: dict[str, Backend] = {"llvm": cpu_backend, "cuda": cuda_backend}


def kind_of(target: Target) -> str:
    """Return the kind of the device that runs code built for a target: a key of `BACKENDS`."""
    return "llvm" if target.on_cpu else target.kind


def backend_of(target: Target) -> Backend:
    """Return the backend that compiles for a target and runs the code."""
    return BACKENDS[kind_of(target)]
