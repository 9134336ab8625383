"""Processes that run untrusted code, under supervisors that end them.

A *supervisor* is a small parent process of such code that runs none of it. When its child ends, or
the process that it works for, it kills all descendants, also those that left their process group.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Collection
from typing import NoReturn

# Signal that a supervisor gets when its parent, or a thread of it, dies.
PARENT_DIED = signal.SIGUSR1

_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_PR_SET_PDEATHSIG, _PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 1, 15, 36


def die_with(parent: int) -> None:
    """Make this process end when its parent of this process id ends, or has ended already."""
    die_by_signal()
    if os.getppid() != parent:  # the parent has ended before
        os._exit(1)


def die_by_signal(number: int = signal.SIGKILL) -> None:
    """Make the system send this process a signal when its parent dies, even if Python is stuck."""
    _prctl(_PR_SET_PDEATHSIG, number)


def set_name(name: str) -> None:
    """Name this process in lists of processes; 15 characters are kept."""
    _prctl(_PR_SET_NAME, name.encode())


def adopt_orphans() -> None:
    """Become the parent of all descendants whose parents end."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def limit_memory(more: int) -> None:
    """Limit the memory of this process to its present size plus some bytes; write no core dumps."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        with open("/proc/self/statm", "rb") as sizes:
            pages = int(sizes.read().split()[5])  # of data and stacks
        limit = pages * resource.getpagesize() + more
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def refuse_forks() -> None:
    """Make every process end at once that machine code forks through glibc.

    A kernel that forks in a loop of calls would fill the machine with copies of this process.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "__register_atfork"):
        register = libc.__getattr__("__register_atfork")
        register(None, None, ctypes.cast(libc._exit, ctypes.c_void_p), None)


def _prctl(option: int, value: int | bytes) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def readable(fd: int, seconds: float) -> bool:
    """Wait until there is data or the end of the file; False after the time-out."""
    poller = select.poll()  # unlike select, takes any file descriptor number
    poller.register(fd, select.POLLIN)
    return bool(poller.poll(seconds * 1e3))


def wait_exit_status(child: int, seconds: float) -> int:
    """Return a child's wait status, once it has ended; kill it if it has not in time."""
    with contextlib.suppress(AttributeError, OSError):  # not on every system
        fd = os.pidfd_open(child)
        try:
            if not readable(fd, seconds):  # it was stopped
                os.kill(child, signal.SIGKILL)
        finally:
            os.close(fd)
    return os.waitpid(child, 0)[1]


def signal_pipe(*numbers: int) -> int:
    """Return a pipe to which each signal writes a byte with its number."""
    reader, writer = os.pipe()
    for end in (reader, writer):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in numbers:
        signal.signal(number, lambda *_: None)
    return reader


def signals_of(reader: int) -> bytes:
    """Return the numbers of the signals that have come to a pipe of `signal_pipe`."""
    try:
        return os.read(reader, 4096)
    except BlockingIOError:
        return b""


def is_terminating(process: int) -> bool:
    """Whether a process was sent SIGKILL; it may not have died yet."""
    with open(f"/proc/{process}/status", "rb") as facts:
        pending = [int(f.split()[1], 16) for f in facts if f.startswith((b"SigPnd:", b"ShdPnd:"))]
    return any(mask >> (signal.SIGKILL - 1) & 1 for mask in pending)


# -- supervisors ------------------------------------------------------------------------------


def supervise(
    child_main: Callable[[], object],
    lifeline: int | None = None,
    seconds: float | None = None,
    child_only: Collection[int] = (),
    at_end: Callable[[], object] = lambda: None,
) -> NoReturn:
    """Become the supervisor of a child that runs `child_main`; neither returns.

    Ends, as the child did, once the child and all its descendants have. They are killed when the
    child ends, `lifeline` hangs up, the parent dies or the time is over.

    child_main: the function of the child, which starts with default signal handling.
    lifeline: a file descriptor of a pipe whose other end the served process holds.
    seconds: time-out of the child.
    child_only: file descriptors that the supervisor closes.
    at_end: called when all have ended.
    """
    parent = os.getppid()
    die_by_signal(PARENT_DIED)
    adopt_orphans()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signals = signal_pipe(signal.SIGCHLD, PARENT_DIED, *_ENDING)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    child = fork_child(child_main)
    for fd in child_only:
        os.close(fd)
    statuses: dict[int, int] = {}
    try:
        if os.getppid() == parent:  # otherwise it has died already
            _wait_for_end(child, lifeline, signals, parent, seconds, statuses)
    finally:
        statuses |= kill_children()
        at_end()
        _exit_like(statuses[child])


def fork_child(main: Callable[[], object]) -> int:
    """Fork a process that runs `main` and ends, with its own session and default signals."""
    parent = os.getpid()
    held = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        child = os.fork()
    except OSError:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        raise
    if child == 0:
        status = 1
        try:
            os.setsid()
            _reset_signals()
            die_with(parent)
            main()
            status = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(status)
    signal.pthread_sigmask(signal.SIG_SETMASK, held)
    return child


def _reset_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, PARENT_DIED, *_ENDING):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _wait_for_end(
    child: int,
    lifeline: int | None,
    signals: int,
    parent: int,
    seconds: float | None,
    statuses: dict[int, int],
) -> None:
    """Return once the child has ended, or it must be ended."""
    deadline = None if seconds is None else time.monotonic() + seconds
    poller = select.poll()
    if lifeline is not None:
        poller.register(lifeline, 0)  # a hang-up is always reported
    poller.register(signals, select.POLLIN)
    while True:
        left = None if deadline is None else max(deadline - time.monotonic(), 0.0) * 1e3
        events = poller.poll(left)
        if not events or any(fd == lifeline for fd, _ in events):
            return
        came = signals_of(signals)
        if any(number in came for number in _ENDING) or os.getppid() != parent:
            return
        statuses |= reap()
        if child in statuses:
            return


def reap() -> dict[int, int]:
    """Return the wait status of each child that has ended, and forget it."""
    found = {}
    with contextlib.suppress(ChildProcessError):
        while True:
            child, status = os.waitpid(-1, os.WNOHANG)
            if child == 0:
                break
            found[child] = status
    return found


def kill_children(spared: Collection[int] = ()) -> dict[int, int]:
    """Kill all children except `spared`, and orphans that these leave; wait until they have ended.

    Return the wait status by process id of all that ended, spared ones included.
    """
    ended = reap()
    while doomed := [child for child in children() if child not in spared]:
        for child in doomed:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
        ended |= reap()
        time.sleep(0.001)
    return ended


def children(process: int | str = "self") -> list[int]:
    """Return the process ids of all children, including ended ones that were not reaped."""
    found: list[int] = []
    for task in os.listdir(f"/proc/{process}/task"):
        # The children of a thread that has just ended belong to another thread.
        with (
            contextlib.suppress(FileNotFoundError, ProcessLookupError),
            open(f"/proc/{process}/task/{task}/children", "rb") as listed,
        ):
            found += map(int, listed.read().split())
    return found


def _exit_like(status: int) -> NoReturn:
    """End this process in the same way as a process with this wait status."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        with contextlib.suppress(OSError):  # SIGKILL cannot be handled at all
            signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [-code])
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)
