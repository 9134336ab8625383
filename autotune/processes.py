"""What processes that run untrusted code have in common: they die with their parent.

Also how a pipe is waited for.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """Let this process end when its parent, of this process id, does; at once if it has."""
    die_by_signal()
    if os.getppid() != parent:  # it was faster
        os._exit(1)


def die_by_signal() -> None:
    """Let the system kill this process when its parent dies; it works even if Python is stuck."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def readable(fd: int, seconds: float) -> bool:
    """Wait until there is something to read, or the end; False if there is nothing in time."""
    poller = select.poll()  # unlike select, takes any file descriptor number
    poller.register(fd, select.POLLIN)
    return bool(poller.poll(seconds * 1e3))
