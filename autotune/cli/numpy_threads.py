"""Threads of the tuning process itself: few, because kernels are timed at the same time."""

from __future__ import annotations

import os
import sys

_VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")


def load_numpy_for_one_thread() -> None:
    """Load NumPy with a BLAS that uses no threads of its own, unless the environment says more.

    Threads of a BLAS spin for a while after each call, next to builds and kernels that are being
    timed; for matrices as small as a tuner's two threads took four times as long as one on a busy
    machine. Other processes that are started later are not affected.
    """
    if "numpy" in sys.modules:
        return
    unset = [name for name in _VARIABLES if name not in os.environ]
    os.environ.update(dict.fromkeys(unset, "1"))
    try:
        import numpy  # noqa: F401, it reads the environment now
    finally:
        for name in unset:
            del os.environ[name]
