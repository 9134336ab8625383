"""The device and the package versions of a measurement, in the form of `Record`'s fields.

Nothing here imports a heavy library: versions come from the installed packages' metadata.
"""

from __future__ import annotations

import importlib.metadata
import platform
from typing import Any

from autotune.errors import TargetError
from autotune.runtime.backends import backend_of
from autotune.system import host
from autotune.system.available_cpus import available_cpus, thread_count
from autotune.target import Target

_PACKAGES = {
    "numpy": "numpy",
    "llvmlite": "llvmlite",
    "xgboost": "xgboost",
    "autotune": "kernel-autotune",
}


def device(target: Target) -> dict[str, Any]:
    """Describe the device that candidates for `target` run on.

    "kind" ("cpu"), "name" of the processor, "cores" this process may run on, "threads" that a
    parallel loop uses, "vector_bytes", and where Linux tells them "model" (see
    `host.processor_model`) and "max_mhz". Or "kind" ("gpu") and what else
    `autotune.runtime.cuda.cupy_driver.facts_of` tells of the GPU, if there is one here.
    """
    return {"kind": "cpu" if target.on_cpu else "gpu", **_facts(target, "device")}


def code_facts(target: Target) -> dict[str, Any]:
    """Return the facts of this machine on which the code for a CPU depends, as plain data.

    "cpus", "threads", "vector_bytes", "cache_bytes" and "memory_bytes", which rules look at, and
    "llvm": what LLVM calls the processor, and its features. Nothing of a target whose code another
    device runs. `host.build_for` takes them.
    """
    if not target.on_cpu:
        return {}
    from autotune.runtime.cpu.llvm_compiler import cpu_and_features  # loads LLVM

    return {
        "cpus": available_cpus(),
        "threads": thread_count(),
        "vector_bytes": host.vector_bytes(),
        "cache_bytes": host.cache_bytes(),
        "memory_bytes": host.memory_bytes(),
        "llvm": list(cpu_and_features("native")),
    }


def versions(target: Target | None = None) -> dict[str, str]:
    """Versions of Python and of the installed packages that affect a measurement.

    On a GPU also those of the driver ("cuda_driver"), "cupy" and "nvrtc". That of LLVM is not asked
    for: each version of llvmlite contains one.
    """
    found = {"python": platform.python_version()}
    for name, package in _PACKAGES.items():
        try:
            found[name] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found if target is None else {**found, **_facts(target, "versions")}


def _facts(target: Target, what: str) -> dict[str, Any]:
    """Return the facts of a device; none if a user's own measurer has the device elsewhere."""
    try:
        found: dict[str, Any] = backend_of(target).facts(target)[what]
    except TargetError:
        return {}
    return found
