"""Names of observers that programs import; none can be used, as `tune_kernel` says.

In: nothing. Out: a base class. Read `observer.py`, which has its other name.
"""

from __future__ import annotations


class BenchmarkObserver:
    """A base of observers, for programs that define one."""
