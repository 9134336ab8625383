"""Probes a template in a forked child first, because its code may crash or never return.

The child only reports the number of decisions on knobs. The parent then knows which configurations
take that path without running it itself. A supervisor between the two ends all processes that the
template has started.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, NoReturn

from autotune.system import processes
from autotune.system.interrupts import restoring

TRACE_TIMEOUT_S = 10.0  # Seconds that one run of a template may take.
LARGEST_TRACE = 1 << 30  # Bytes of memory that one run of a template may take.

_ENDING_S = 10.0
_INTERRUPTING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_DECISION, _END = b".", b"!"
_FAULTS = {
    b"&": "left processes behind",
    b"#": "ran out of memory",
    b"^": "raised KeyboardInterrupt",
}
_LEFT, _MEMORY, _INTERRUPT = _FAULTS
_FROM_OUTSIDE = (-signal.SIGKILL, -signal.SIGTERM)


class Fault(NamedTuple):
    """How a run of a template ended its process."""

    decisions: int  # Decisions on knobs that came before.
    message: str  # What happened.


def probe(
    run: Callable[[Callable[[], object]], object], timeout_s: float = TRACE_TIMEOUT_S
) -> Fault | None:
    """Run a function in a child process; return None if it returns or raises an exception.

    If processes cannot be forked, it returns None at once. It is also a fault to leave processes
    behind, to use more memory than `LARGEST_TRACE`, or to raise KeyboardInterrupt: this process
    would have the same fault, or take it for the user's Ctrl-C. If a signal that may come from
    outside ends the child, it is tried once more.

    run: the function to run; it calls its argument at every decision.
    timeout_s: seconds after which the child is killed, with all that it started.
    """
    if not hasattr(os, "fork"):
        return None
    heard, silent, code = _tried(run, timeout_s)
    if code in _FROM_OUTSIDE and not silent and not heard.endswith((_END, *_FAULTS)):
        heard, silent, code = _tried(run, timeout_s)
    decisions = heard.count(_DECISION)
    for mark, message in _FAULTS.items():
        if mark in heard:
            return Fault(decisions, message)
    if heard.endswith(_END):
        return None
    if silent:
        return Fault(decisions, f"did not return within {timeout_s:g} s")
    how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"left with exit code {code}"
    return Fault(decisions, how)


def _tried(
    run: Callable[[Callable[[], object]], object], timeout_s: float
) -> tuple[bytes, bool, int]:
    """Return the child's reports, whether it was still running at the end, and its exit code."""
    reader, writer = os.pipe()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    supervisor = status = 0

    def listen() -> tuple[bytes, bool]:
        nonlocal supervisor
        # An exception of a signal handler would be lost in Python's code around the fork.
        signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPTING)
        try:
            supervisor = _forked()
            if supervisor == 0:
                _keep(run, writer, timeout_s + 1.0)
        finally:
            os.close(writer)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return _listen(reader, time.monotonic() + timeout_s)

    def end() -> None:
        nonlocal status
        os.close(reader)  # It tells the supervisor to end the child.
        if supervisor:
            status = processes.wait_exit_status(supervisor, _ENDING_S)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    heard, silent = restoring(end, listen)
    return heard, silent, os.waitstatus_to_exitcode(status)


def _forked() -> int:
    with warnings.catch_warnings():
        # The child runs only the template and leaves by _exit, so other threads do not matter.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _keep(run: Callable[[Callable[[], object]], object], writer: int, timeout_s: float) -> NoReturn:
    """In a new process: supervise the process that probes the template."""
    try:
        _confine(writer)
        processes.supervise(partial(_try_out, run, writer), writer, timeout_s)
    finally:
        os._exit(1)


def _confine(writer: int) -> None:
    """Close all inherited file descriptors of this forked process except the pipe."""
    faulthandler.disable()
    os.setsid()
    processes.limit_memory(LARGEST_TRACE)
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(quiet, stream)
    for fd in map(int, os.listdir("/dev/fd")):
        if fd > 2 and fd != writer:
            with contextlib.suppress(OSError):  # The listing's own is closed by now.
                os.close(fd)


def _try_out(run: Callable[[Callable[[], object]], object], writer: int) -> None:
    processes.adopt_orphans()
    own, supervisor, alarm, end = os.getpid(), os.getppid(), os.dup(writer), _END
    os.register_at_fork(after_in_child=partial(_leave_to_parent, writer))
    try:
        run(partial(os.write, writer, _DECISION))
    except MemoryError:
        end = _MEMORY
    except KeyboardInterrupt as error:
        if type(error) is KeyboardInterrupt:  # no Ctrl-C: this process has no terminal
            end = _INTERRUPT
    except BaseException:
        pass  # The parent gets the same error and reports it.
    if os.getpid() != own:  # a fork that returns from the template: there would be two processes
        os.write(alarm, _LEFT)
        return
    while os.getppid() != supervisor or processes.is_terminating(supervisor):
        signal.pause()  # the template has killed its parent, and this will end too
    os.write(writer, _LEFT if processes.children() else end)


def _leave_to_parent(writer: int) -> None:
    """In a process forked by the template: die with the parent, and never write to its pipe."""
    processes.die_by_signal()
    os.close(writer)


def _listen(reader: int, deadline: float) -> tuple[bytes, bool]:
    """Return the child's output, and whether it was still running at the deadline."""
    heard = b""
    while (left := deadline - time.monotonic()) > 0:
        if not processes.readable(reader, left):
            break
        part = os.read(reader, 4096)
        heard += part
        if not part or part.endswith((_END, *_FAULTS)):
            return heard, False
    return heard, True
