"""Kernels as text: a device header, compilation at run time, launches, templates, and an example.

`get_function` and `launch` are all that a kernel of one's own needs; `unary` is one.
`VectorizedKernelRTCLauncher` launches those that take vectors, `RawKernel` is what a template
returns. Names are loaded when they are first used: templates need but the last.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autotune.rtc.elementwise import Unary as Unary
    from autotune.rtc.elementwise import unary as unary
    from autotune.rtc.functions import RTCFunction as RTCFunction
    from autotune.rtc.functions import get_function as get_function
    from autotune.rtc.functions import launch as launch
    from autotune.rtc.header import device_header as device_header
    from autotune.rtc.kernel import KernelLaunch as KernelLaunch
    from autotune.rtc.kernel import RawKernel as RawKernel
    from autotune.rtc.launcher import VectorizedKernel as VectorizedKernel
    from autotune.rtc.launcher import VectorizedKernelRTCLauncher as VectorizedKernelRTCLauncher
    from autotune.rtc.operators import UNARY as UNARY
    from autotune.rtc.vectors import VECTOR_BYTES as VECTOR_BYTES
    from autotune.rtc.vectors import VectorPlan as VectorPlan
    from autotune.rtc.vectors import most_lanes as most_lanes
    from autotune.rtc.vectors import plan_vectors as plan_vectors

_HOMES = {
    "KernelLaunch": "kernel",
    "UNARY": "operators",
    "VECTOR_BYTES": "vectors",
    "RTCFunction": "functions",
    "RawKernel": "kernel",
    "Unary": "elementwise",
    "VectorPlan": "vectors",
    "VectorizedKernel": "launcher",
    "VectorizedKernelRTCLauncher": "launcher",
    "device_header": "header",
    "get_function": "functions",
    "launch": "functions",
    "most_lanes": "vectors",
    "plan_vectors": "vectors",
    "unary": "elementwise",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'autotune.rtc' has no attribute {name!r}")
    return getattr(importlib.import_module(f"autotune.rtc.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
