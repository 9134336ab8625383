"""The kinds of devices.

A new kind is a folder beside this file, a line in `BACKENDS`, its source text in
`autotune.codegen`, and its options in `autotune.target`. Those of users are found by their names
(docs/extend.md).
"""

from __future__ import annotations

from autotune.runtime.cpu import cpu_backend
from autotune.runtime.cuda import cuda_backend
from autotune.runtime.device import Backend
from autotune.target import Target, device_of_user

#: By the kind of a target; "llvm" also where a target for GPUs runs on the processor.
BACKENDS: dict[str, Backend] = {"llvm": cpu_backend, "cuda": cuda_backend}


def kind_of(target: Target) -> str:
    """Return the kind of the device that runs code built for a target."""
    return "llvm" if target.kind == "cuda" and target.on_cpu else target.kind


def backend_of(target: Target) -> Backend:
    """Return the backend that compiles for a target and runs the code."""
    kind = kind_of(target)
    found: Backend = BACKENDS[kind] if kind in BACKENDS else device_of_user(kind)
    return found
