"""Makes what every run of a forked command does quick: starting processes, measuring the machine.

`make_runs_quick` changes the process that commands are forked off. Their fork servers are forked
off them, where everything is imported already, and the machine's ceiling is measured for a moment.
"""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
from typing import IO, Any, NoReturn

from autotune.measure import run_bench
from autotune.measure.pool import fork_server, fork_server_client
from autotune.system.processes import fork_child, readable

CEILING_S = 0.04


def make_runs_quick() -> None:
    start = functools.partial(_start_supervisor, fork_server_client._start_supervisor)
    fork_server_client._start_supervisor = start
    run_bench.measure_ceiling = functools.partial(run_bench.measure_ceiling, seconds=CEILING_S)


def _start_supervisor(usual: Any, ends: tuple[int, int], log: IO[bytes]) -> Any:
    """Fork a fork server; start it as usual if there are threads, which a fork would lack."""
    alone = len(os.listdir("/proc/self/task")) == 1
    return _ForkedSupervisor(ends, log) if alone else usual(ends, log)


class _ForkedSupervisor:
    """A child that is the supervisor of a fork server; what is used of `subprocess.Popen`."""

    def __init__(self, ends: tuple[int, int], log: IO[bytes]) -> None:
        self._status: int | None = None
        self._pid = fork_child(functools.partial(serve_as_fork_server, ends, log.fileno()))
        self._pidfd = os.pidfd_open(self._pid)

    def wait(self, timeout: float | None = None) -> int:
        if self._status is None:
            if timeout is not None and not readable(self._pidfd, timeout):
                raise subprocess.TimeoutExpired("a forked fork server", timeout)
            self._status = os.waitpid(self._pid, 0)[1]
            os.close(self._pidfd)
        return os.waitstatus_to_exitcode(self._status)

    def send_signal(self, number: int) -> None:
        if self._status is None:
            os.kill(self._pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


def serve_as_fork_server(ends: tuple[int, int], log: int) -> NoReturn:
    """Become what `python -P -m autotune.measure.pool.fork_server` is."""
    null = os.open(os.devnull, os.O_RDWR)
    for number, fd in enumerate((null, null, log)):
        os.dup2(fd, number)
    sys.stdout, sys.stderr = (os.fdopen(n, "w", closefd=False) for n in (1, 2))
    first, second = sorted(ends)
    for low, high in ((3, first), (first + 1, second), (second + 1, 256)):
        os.closerange(low, high)
    sys.path.remove(os.path.dirname(os.path.abspath(__file__)))
    words = [*map(str, ends)]
    sys.argv = [fork_server.__file__, *words]  # templates of tests look where they are
    sys.orig_argv = [sys.executable, "-P", "-m", fork_server.__name__, *words]
    fork_server.main(words)
    raise AssertionError("a supervisor does not return")
