"""autotune: schedules, features, search and measurement for kernels on CPUs and GPUs.

In: a template or a schedule, and a target. Out: a compiled function (`build`), its loops
(`lower`), or its fastest configuration (`tune`). Read `builder.py` and `tuning.py` first;
docs/architecture.md says which folder does what. Names are loaded when they are first used, so that
`import autotune` costs next to nothing.
"""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autotune import rtc as rtc
    from autotune import te as te
    from autotune import tile as tile
    from autotune.builder import build as build
    from autotune.builder import lower as lower
    from autotune.external.c_kernel import CKernel as CKernel
    from autotune.external.callable_kernel import CallableKernel as CallableKernel
    from autotune.runtime.load_library import load as load
    from autotune.runtime.torch_operator import torch_op as torch_op
    from autotune.shape_dispatch.dispatcher import dispatch as dispatch
    from autotune.system.version import __version__ as __version__
    from autotune.target import Target as Target
    from autotune.tuned_function import autotuned as autotuned
    from autotune.tuner.base import Observation as Observation
    from autotune.tuner.factory import make_tuner as make_tuner
    from autotune.tuning import Tuned as Tuned
    from autotune.tuning import tune as tune
    from autotune.tuning import tune_job as tune_job

__all__ = [
    "CKernel", "CallableKernel", "Observation", "Target", "Tuned", "__version__", "autotuned",
    "build", "dispatch", "load", "lower", "make_tuner", "rtc", "te", "tile", "torch_op", "tune",
    "tune_job",
]  # fmt: skip

logging.getLogger(__name__).addHandler(logging.NullHandler())  # silent unless the program asks

_HOMES = {
    "__version__": "autotune.system.version",
    "autotuned": "autotune.tuned_function",
    "CKernel": "autotune.external.c_kernel",
    "CallableKernel": "autotune.external.callable_kernel",
    "build": "autotune.builder",
    "dispatch": "autotune.shape_dispatch.dispatcher",
    "load": "autotune.runtime.load_library",
    "lower": "autotune.builder",
    "make_tuner": "autotune.tuner.factory",
    "Observation": "autotune.tuner.base",
    "Target": "autotune.target",
    "torch_op": "autotune.runtime.torch_operator",
    "Tuned": "autotune.tuning",
    "tune": "autotune.tuning",
    "tune_job": "autotune.tuning",
}


def __getattr__(name: str) -> Any:
    if name in ("rtc", "te", "tile"):
        return importlib.import_module(f"autotune.{name}")
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'autotune' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
