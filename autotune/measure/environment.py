"""What a measurement was made on and with: device and versions, as records keep them.

Nothing here imports a heavy library: versions come from the installed packages' metadata.
"""

from __future__ import annotations

import importlib.metadata
import platform
from pathlib import Path
from typing import Any

from autotune.errors import TargetError
from autotune.measure.devices.cuda.device_properties import gpu_facts
from autotune.system.available_cpus import available_cpus, thread_count
from autotune.system.host import processor_name
from autotune.target import Target

_PACKAGES = {
    "numpy": "numpy",
    "llvmlite": "llvmlite",
    "xgboost": "xgboost",
    "autotune": "kernel-autotune",
}

_UNKNOWN_CACHE = 32 << 20
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def device(target: Target) -> dict[str, Any]:
    """Describe the device that candidates for `target` run on.

    Returns
    -------
    dict
        "kind" ("cpu"), "name" of the processor, "cores" this process may run on, "threads" that a
        parallel loop uses, "vector_bytes". Or "kind" ("gpu") and what else
        `autotune.runtime.cuda.cupy_driver.facts_of` tells of the GPU, if there is one here.
    """
    if not target.on_cpu:
        return {"kind": "gpu", **_gpu(target).get("device", {})}
    return {
        "kind": "cpu",
        "name": processor_name(),
        "cores": available_cpus(),
        "threads": thread_count(target.threads),
        "vector_bytes": target.host.vector_bytes,
    }


def cache_bytes(folder: str = "/sys/devices/system/cpu/cpu0/cache") -> int:
    """Return the size of the processor's largest cache as Linux tells it, else 32 MiB."""
    texts = [path.read_text(encoding="ascii").strip() for path in Path(folder).glob("index*/size")]
    sizes = [
        int(text[:-1]) * _UNITS[text[-1]]
        for text in texts
        if text[:-1].isdecimal() and text[-1] in _UNITS
    ]
    return max(sizes, default=_UNKNOWN_CACHE)


def versions(target: Target | None = None) -> dict[str, str]:
    """Versions of Python and of the packages that shape a measurement; those installed only.

    On a GPU also those of the driver ("cuda_driver"), "cupy" and "nvrtc".
    """
    found = {"python": platform.python_version()}
    for name, package in _PACKAGES.items():
        try:
            found[name] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    if target is not None and not target.on_cpu:
        found.update(_gpu(target).get("versions", {}))
    return found


def _gpu(target: Target) -> dict[str, Any]:
    """Return what is known of the GPU; nothing where a measurer of one's own has it elsewhere."""
    try:
        return gpu_facts(target)
    except TargetError:
        return {}
