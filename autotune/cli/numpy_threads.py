"""Threads of the tuning process itself: few, because kernels are timed at the same time."""

from __future__ import annotations

import os
import sys

from autotune.system.environment_variables import changed_environment

_VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")


def load_numpy_for_one_thread() -> None:
    """Load NumPy with a BLAS that uses no threads of its own, unless the environment says more.

    Threads of a BLAS spin for a while after each call, next to builds and kernels that are being
    timed; for matrices as small as a tuner's two threads took four times as long as one on a busy
    machine. Other processes that are started later are not affected.
    """
    if "numpy" in sys.modules:
        return
    with changed_environment({name: os.environ.get(name, "1") for name in _VARIABLES}):
        import numpy  # noqa: F401, it reads the environment now
