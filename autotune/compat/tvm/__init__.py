"""TVM's names of about 2020 (0.6 and 0.7), for programs that schedule tensor expressions.

In: a program of which only the import lines change, to ``from autotune.compat import tvm`` and
``from autotune.compat.tvm import te``. Out: what its calls return, by autotune's own functions.
Read `module.py` first. docs/compat.md lists what is not here.
"""

from __future__ import annotations

from typing import Any

from autotune import te
from autotune.compat.devices import cpu, device, gpu
from autotune.compat.tvm import nd, target, testing
from autotune.compat.tvm.module import build, lower

tir = te
"""Functions of elements, such as ``tvm.tir.exp`` and ``tvm.tir.if_then_else``."""

context, cuda = device, gpu

__all__ = [
    "build", "context", "cpu", "cuda", "device", "gpu", "lower", "nd", "target", "te", "testing",
    "tir",
]  # fmt: skip

#: Names of `te` that stood in `tvm` itself until 0.6.
_EARLIER = frozenset((
    "abs", "all", "any", "ceil", "comm_reducer", "compute", "const", "create_schedule", "erf",
    "exp", "floor", "floordiv", "floormod", "if_then_else", "indexdiv", "indexmod", "log", "max",
    "max_value", "min", "min_value", "placeholder", "popcount", "power", "reduce_axis", "round",
    "scan", "sigmoid", "sqrt", "sum", "tanh", "thread_axis", "trunc", "var",
))  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _EARLIER:
        return getattr(te, name)
    raise AttributeError(f"autotune.compat.tvm has no {name!r}: docs/compat.md lists what it has")
