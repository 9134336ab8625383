"""Kernels as text: a device header, compilation at run time, launches, templates, and an example.

In: CUDA C++. Out: functions that launch it with checks. Read `rtc_function.py` first.

`get_function` and `launch` are all that a kernel of one's own needs; `unary` is one.
`VectorizedKernelRTCLauncher` launches those that take vectors, `RawKernel` is what a template
returns. Names are loaded when they are first used: templates need only the last.
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
    name: f"autotune.{module}"
    for module, names in {
        "codegen.cuda.device_source": ("device_header",),
        "rtc.elementwise": ("Unary", "unary"),
        "rtc.raw_kernel": ("KernelLaunch", "RawKernel"),
        "rtc.rtc_function": ("RTCFunction", "get_function", "launch"),
        "rtc.unary_operators": ("UNARY",),
        "rtc.vector_plan": ("VECTOR_BYTES", "VectorPlan", "most_lanes", "plan_vectors"),
        "rtc.vectorized_launcher": ("VectorizedKernel", "VectorizedKernelRTCLauncher"),
    }.items()
    for name in names
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'autotune.rtc' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
