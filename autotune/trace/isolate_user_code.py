"""Isolates foreign code: discards its output and undoes its changes to the process.

Python's streams and the file descriptors of C code and child processes are replaced.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from autotune.system.interrupts import defer_interrupts, restoring

T = TypeVar("T")

_UNHANDLED = (signal.SIGKILL, signal.SIGSTOP)
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_LIMITS = sorted({getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")})
_STREAMS = ("stdin", "stdout", "stderr")
_LARGEST_FENV = 128  # Bytes for a `fenv_t` of C; it is at most half as large on every system.

_HOOKS = ("excepthook", "unraisablehook", "displayhook", "breakpointhook")


def run_silenced(do: Callable[[], T]) -> T:
    """Call a function and discard everything that this process prints meanwhile.

    The standard input is empty, because the user would not see a prompt. This affects all threads.
    A closed stream stays closed.
    """
    streams = _Streams()
    return restoring(streams.restore, lambda: streams.silence(do))


class _Streams:
    """The present state of the three standard streams."""

    def __init__(self) -> None:
        self._objects = {name: getattr(sys, name) for name in _STREAMS}
        self._copies: dict[int, int] = {}

    def silence(self, do: Callable[[], T]) -> T:
        """Redirect them to /dev/null, and call a function."""
        self._flush()
        for stream in range(len(_STREAMS)):
            with contextlib.suppress(OSError):  # it is closed
                self._copies[stream] = os.dup(stream)
        with open(os.devnull, "r+") as nowhere:
            for stream in self._copies:
                os.dup2(nowhere.fileno(), stream)
            for name in _STREAMS:
                setattr(sys, name, nowhere)
            return do()

    def restore(self) -> None:
        """Restore as many of them as possible."""
        self._flush()
        with contextlib.ExitStack() as each:
            for name, stream in self._objects.items():
                each.callback(setattr, sys, name, stream)
            for stream, copy in self._copies.items():
                each.callback(os.close, copy)
                each.callback(os.dup2, copy, stream)

    def _flush(self) -> None:
        """Flush all buffered output, C's buffers included."""
        for name in ("stdout", "stderr"):
            # A stream that is missing, closed or without a reader loses nothing.
            with contextlib.suppress(AttributeError, OSError, ValueError):
                self._objects[name].flush()
        ctypes.CDLL(None).fflush(None)


def run_isolated(do: Callable[[], T]) -> T:
    """As `run_silenced`, and restore the state of the process afterwards.

    The state is the working folder, the file mode mask, the environment, blocked signals and their
    handlers, timers, limits of resources (if they can be raised again) and of recursion, CPU
    affinity, the rounding mode, and Python's hooks for uncaught errors.
    """
    return restoring(_Process().restore, partial(run_silenced, do))


class _Process:
    """State of a process that foreign code may change."""

    def __init__(self) -> None:
        self._folder = os.open(".", getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY)
        self._mask = defer_interrupts(_mask)
        self._environment = dict(os.environ)
        self._handlers = {number: signal.getsignal(number) for number in _handled()}
        self._blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        self._idle_timers = [t for t in _TIMERS if signal.getitimer(t) == (0.0, 0.0)]
        self._limits = {limit: resource.getrlimit(limit) for limit in _LIMITS}
        self._recursion = sys.getrecursionlimit()
        self._hooks = {name: getattr(sys, name) for name in _HOOKS}
        known = hasattr(os, "sched_getaffinity")
        self._processors = os.sched_getaffinity(0) if known else None
        self._rounding = ctypes.create_string_buffer(_LARGEST_FENV)
        ctypes.CDLL(None).fegetenv(self._rounding)

    def restore(self) -> None:
        """Restore the saved state."""
        for name, hook in self._hooks.items():
            setattr(sys, name, hook)
        ctypes.CDLL(None).fesetenv(self._rounding)
        if self._processors is not None:
            with contextlib.suppress(OSError):  # some CPUs are no longer available
                os.sched_setaffinity(0, self._processors)
        for timer in self._idle_timers:
            signal.setitimer(timer, 0.0)
        sys.setrecursionlimit(self._recursion)
        _restore_limits(self._limits)
        os.fchdir(self._folder)
        os.close(self._folder)
        os.umask(self._mask)
        _restore_environment(self._environment)
        for number, handler in self._handlers.items():
            if handler is not None and signal.getsignal(number) != handler:
                signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._blocked)  # pending signals are delivered


def _mask() -> int:
    """Return the file mode mask, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _handled() -> Iterable[signal.Signals]:
    """Signals whose handlers can be set: all in the main thread, else none."""
    if threading.current_thread() is not threading.main_thread():
        return ()
    return [number for number in signal.Signals if number not in _UNHANDLED]


def _restore_limits(before: dict[int, tuple[int, int]]) -> None:
    for limit, (soft, hard) in before.items():
        now = resource.getrlimit(limit)
        if now == (soft, hard):
            continue
        try:
            resource.setrlimit(limit, (soft, hard))
        except (OSError, ValueError):  # only root may raise a hard limit again
            resource.setrlimit(limit, (now[1], now[1]))


def _restore_environment(before: dict[str, str]) -> None:
    for name in os.environ.keys() - before.keys():
        del os.environ[name]
    for name, value in before.items():
        if os.environ.get(name) != value:
            os.environ[name] = value
