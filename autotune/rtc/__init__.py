"""Kernels as text: a device header, compilation at run time, launches, and an example.

`get_function` and `launch` are all that a kernel of one's own needs; `unary` is one.
"""

from autotune.rtc.functions import RTCFunction, get_function, launch
from autotune.rtc.header import device_header
from autotune.rtc.operators import UNARY
from autotune.rtc.raw import RawKernel
from autotune.rtc.unary import Unary, unary
from autotune.rtc.vectors import VECTOR_BYTES, VectorPlan, most_lanes, plan_vectors

__all__ = [
    "UNARY",
    "VECTOR_BYTES",
    "RTCFunction",
    "RawKernel",
    "Unary",
    "VectorPlan",
    "device_header",
    "get_function",
    "launch",
    "most_lanes",
    "plan_vectors",
    "unary",
]
