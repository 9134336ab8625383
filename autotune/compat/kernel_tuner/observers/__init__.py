"""Names of observers, so that programs can import them; `tune_kernel` refuses observers.

In: nothing. Out: a base class. `observer.py` has the same class under its other module name.
"""

from __future__ import annotations


class BenchmarkObserver:
    """A base of observers, for programs that define one."""
