"""Names of observers, so that programs can import them; `tune_kernel` refuses observers.

In: nothing. Out: a base class. Read `observer.py`, its other module name in Kernel Tuner.
"""

from __future__ import annotations


class BenchmarkObserver:
    """A base of observers, for programs that define one."""
