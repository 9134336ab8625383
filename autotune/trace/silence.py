"""Silence and order around code that is not ours: it prints nothing and changes nothing here.

Python's streams are replaced, and so are the file descriptors that C code and children write to.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
import threading
from collections.abc import Iterable, Iterator

_UNHANDLED = (signal.SIGKILL, signal.SIGSTOP)
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_LIMITS = sorted({getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")})


@contextlib.contextmanager
def silenced() -> Iterator[None]:
    """Discard all that this process writes to its standard output and error meanwhile.

    Nobody would see what it asks for, so there is nothing to read on the standard input either. It
    holds for all threads. A stream that is closed stays so.
    """
    _flush()
    with open(os.devnull, "r+") as nowhere, contextlib.ExitStack() as undo:
        for stream in (0, 1, 2):
            try:
                kept = os.dup(stream)
            except OSError:  # it is closed
                continue
            undo.callback(os.close, kept)
            undo.callback(os.dup2, kept, stream)
            os.dup2(nowhere.fileno(), stream)
        undo.callback(setattr, sys, "stdin", sys.stdin)
        sys.stdin = nowhere
        with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
            try:
                yield
            finally:
                _flush()


@contextlib.contextmanager
def contained() -> Iterator[None]:
    """As `silenced`, and much of what code can change in its process is restored afterwards.

    That is the working folder, the file mode mask, the environment, how signals are handled, that
    no timer sends any, limits of resources (as far as they may be raised again) and of recursion.
    """
    folder = os.open(".", getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY)
    mask = os.umask(0o077)
    os.umask(mask)
    environment = dict(os.environ)
    handlers = {number: signal.getsignal(number) for number in _handled()}
    idle_timers = [timer for timer in _TIMERS if signal.getitimer(timer) == (0.0, 0.0)]
    limits = {limit: resource.getrlimit(limit) for limit in _LIMITS}
    recursion = sys.getrecursionlimit()
    try:
        with silenced():
            yield
    finally:
        for timer in idle_timers:
            signal.setitimer(timer, 0.0)
        sys.setrecursionlimit(recursion)
        _restore_limits(limits)
        os.fchdir(folder)
        os.close(folder)
        os.umask(mask)
        _restore_environment(environment)
        for number, handler in handlers.items():
            if handler is not None and signal.getsignal(number) != handler:
                signal.signal(number, handler)


def _handled() -> Iterable[signal.Signals]:
    """Signals whose handlers can be set: all, by the main thread."""
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


def _flush() -> None:
    """Write out what is buffered, C's buffers included."""
    for stream in (sys.stdout, sys.stderr):
        # One that is missing, closed or without a reader has nothing to lose.
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.flush()
    ctypes.CDLL(None).fflush(None)
