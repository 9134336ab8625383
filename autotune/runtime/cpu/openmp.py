"""The OpenMP runtime that parallel loops launch through: GNU's libgomp, found without a compiler.

XGBoost's wheel brings one, which is found by path (importing XGBoost is slow, and two copies in
one process would start two pools); else the system's is used; else loops run on one thread.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import glob
import importlib.util
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from records.caller_warnings import warn

# Times that a waiting thread looks again before it sleeps: some hundreds of microseconds.
SPIN_COUNT = "10000"

SYMBOLS = ("GOMP_parallel", "omp_get_num_threads", "omp_get_thread_num")


class OpenMPWarning(UserWarning):
    """Parallel loops run on one thread, and why."""


@dataclass(frozen=True, eq=False)
class OpenMP:
    """A loaded OpenMP runtime."""

    #: Where the library was found.
    path: str
    #: Addresses of `SYMBOLS`.
    addresses: dict[str, int]


def candidates() -> list[str]:
    """Libraries to try, best first: the one of XGBoost's wheel, then the system's."""
    found: list[str] = []
    spec = importlib.util.find_spec("xgboost")
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        libraries = Path(folder).parent / "xgboost.libs"
        found += sorted(glob.glob(str(libraries / "libgomp*.so*")))
    return [*found, "libgomp.so.1"]


@contextlib.contextmanager
def bounded_spin() -> Iterator[None]:
    """Let threads that wait spin briefly and then sleep, unless the user has said how to wait.

    libgomp reads this when it is loaded. Its own default spins for milliseconds, and on a machine
    with other work a spinning thread keeps the one it waits for from running.
    """
    chosen = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys()
    if not chosen:
        os.environ["GOMP_SPINCOUNT"] = SPIN_COUNT
    try:
        yield
    finally:
        if not chosen:
            del os.environ["GOMP_SPINCOUNT"]


def _open(path: str) -> OpenMP | None:
    try:
        with bounded_spin():
            library = ctypes.CDLL(path)
        addresses = {
            name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
            for name in SYMBOLS
        }
    except (OSError, AttributeError):
        return None
    return OpenMP(path, addresses)


@functools.cache
def find_openmp() -> OpenMP | None:
    """Load the OpenMP runtime once; None, with one warning, if there is none."""
    for path in candidates():
        library = _open(path)
        if library is not None:
            return library
    warn(
        "no OpenMP runtime found (libgomp, in XGBoost's wheel or of the system): parallel loops "
        "run on one thread",
        OpenMPWarning,
    )
    return None


class _Launches:
    """Guards launches: one at a time, and none in a forked child.

    libgomp keeps its threads per launching thread and does not survive fork: a child that
    launches waits for threads that exist only in its parent. Children run on one thread, unless
    they know better.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.forked = False
        self.warned = False
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._in_child)

    def _in_child(self) -> None:
        self.lock = threading.Lock()
        self.forked = True

    def forked_before_any(self) -> None:
        """Say that nothing had launched, in this process or those above, when it was forked."""
        self.forked = False

    def threads(self, wanted: int) -> int:
        """Return `wanted`, or 1 with one warning in a forked child."""
        if not self.forked or wanted == 1:
            return wanted
        if not self.warned:
            self.warned = True
            warn(
                "parallel loops run on one thread in a forked process: start processes by spawn",
                OpenMPWarning,
            )
        return 1


launches = _Launches()
