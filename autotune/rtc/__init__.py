"""Kernels as text: a device header, compilation at run time, launches, templates, and an example.

`get_function` and `launch` are all that a kernel of one's own needs; `unary` is one.
`VectorizedKernelRTCLauncher` launches those that take vectors, `RawKernel` is what a template
returns. Names are loaded when they are first used: templates need only the last. In: CUDA C++.
Out: functions that launch it with checks. Read `rtc_function.py` first.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autotune.codegen.cuda.device_source import device_header as device_header
    from autotune.rtc.elementwise import Unary as Unary
    from autotune.rtc.elementwise import unary as unary
    from autotune.rtc.raw_kernel import KernelLaunch as KernelLaunch
    from autotune.rtc.raw_kernel import RawKernel as RawKernel
    from autotune.rtc.rtc_function import RTCFunction as RTCFunction
    from autotune.rtc.rtc_function import get_function as get_function
    from autotune.rtc.rtc_function import launch as launch
    from autotune.rtc.unary_operators import UNARY as UNARY
    from autotune.rtc.vector_plan import VECTOR_BYTES as VECTOR_BYTES
    from autotune.rtc.vector_plan import VectorPlan as VectorPlan
    from autotune.rtc.vector_plan import most_lanes as most_lanes
    from autotune.rtc.vector_plan import plan_vectors as plan_vectors
    from autotune.rtc.vectorized_launcher import VectorizedKernel as VectorizedKernel
    from autotune.rtc.vectorized_launcher import (
        VectorizedKernelRTCLauncher as VectorizedKernelRTCLauncher,
    )

_HOMES = {
    "KernelLaunch": "autotune.rtc.raw_kernel",
    "UNARY": "autotune.rtc.unary_operators",
    "VECTOR_BYTES": "autotune.rtc.vector_plan",
    "RTCFunction": "autotune.rtc.rtc_function",
    "RawKernel": "autotune.rtc.raw_kernel",
    "Unary": "autotune.rtc.elementwise",
    "VectorPlan": "autotune.rtc.vector_plan",
    "VectorizedKernel": "autotune.rtc.vectorized_launcher",
    "VectorizedKernelRTCLauncher": "autotune.rtc.vectorized_launcher",
    "device_header": "autotune.codegen.cuda.device_source",
    "get_function": "autotune.rtc.rtc_function",
    "launch": "autotune.rtc.rtc_function",
    "most_lanes": "autotune.rtc.vector_plan",
    "plan_vectors": "autotune.rtc.vector_plan",
    "unary": "autotune.rtc.elementwise",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'autotune.rtc' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
