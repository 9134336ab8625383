"""The fork server: starts the worker processes, which run untrusted code.

In: requests for a builder or a runner, on the socket CONTROL. Out: a forked process within
milliseconds. ``python -m autotune.measure.pool.fork_server LIFELINE CONTROL`` starts it.

The first process becomes a supervisor. Its child is the fork server, which imports the heavy
modules once and runs no foreign code. Each worker has its own supervisor. If any of these processes
is killed, the supervisor above it ends its children.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotune.system import processes
from autotune.system.scratch import remove_scratch, share_scratch

if TYPE_CHECKING:
    from collections.abc import Callable

    from autotune.measure.pool.messages import Channel

LARGEST_BUILDER = 1 << 30  # Bytes of memory that a builder may allocate; a larger allocation fails.
RUNNER_SHARE = 0.75  # Share of the free memory at its start that a runner may allocate.

_UNKNOWN_MEMORY = 1 << 36
_LARGEST_REQUEST = 4096


def main(arguments: list[str]) -> None:
    """Become the supervisor of a fork server that reads its orders from the socket CONTROL.

    All processes end when the pipe LIFELINE is closed.
    """
    lifeline, control = map(int, arguments)
    processes.set_name("autotune:superv")
    work = partial(_run_fork_server, lifeline, control)
    share_scratch()
    processes.supervise(work, lifeline, child_only=[control], at_end=remove_scratch)


def _run_fork_server(lifeline: int, control: int) -> None:
    os.close(lifeline)
    processes.set_name("autotune:forker")
    ForkServer(socket.socket(fileno=control)).run()


class ForkServer:
    """Forks workers, and reports when they end.

    Orders are JSON objects: ``{"start": number, "role": role}``, with the worker's end of its
    channel; ``{"end": number}``. Numbers are the tuning process's. The fork server reports
    ``{"ready": true}``, and ``{"ended": number, "status": wait status}`` when a worker and all its
    children have ended.
    """

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._workers: dict[int, int] = {}  # number by the supervisor's process id
        self._supervisor = os.getppid()
        processes.die_by_signal(processes.PARENT_DIED)
        processes.adopt_orphans()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # workers know this process's number
        self._signals = processes.signal_pipe(signal.SIGCHLD, processes.PARENT_DIED)

    def run(self) -> None:
        """Serve until the tuning process or the supervisor has ended."""
        from autotune.measure.pool.worker import serve
        from autotune.runtime.backends import BACKENDS

        for backend in BACKENDS.values():
            backend.preload()
        gc.collect()
        gc.freeze()  # objects that the collector does not visit stay shared with the workers
        poller = select.poll()
        poller.register(self._control, select.POLLIN)
        poller.register(self._signals, select.POLLIN)
        try:
            self._send({"ready": True})
            while os.getppid() == self._supervisor:
                events = dict(poller.poll())
                if self._signals in events:
                    processes.signals_of(self._signals)
                    self._report_exits(processes.reap())
                if self._control.fileno() in events and not self._handle_order(serve):
                    break
        except ConnectionError:
            pass  # the tuning process is gone
        processes.kill_children()

    def _handle_order(self, serve: Callable[[str, Channel], None]) -> bool:
        """Handle one order; return False if the socket is closed."""
        text, fds, _, _ = socket.recv_fds(self._control, _LARGEST_REQUEST, 1)
        if not text:
            return False
        order = json.loads(text)
        if "start" in order:
            (end,) = fds
            child = processes.fork_child(
                partial(self._supervise, partial(_work, serve, order["role"], end), end)
            )
            os.close(end)
            self._workers[child] = order["start"]
        else:
            for child, number in self._workers.items():
                if number == order["end"]:
                    os.kill(child, signal.SIGKILL)  # the worker dies with it
        return True

    def _report_exits(self, statuses: dict[int, int]) -> None:
        """Report the workers that have ended, once all their children have ended, too."""
        while lost := self._workers.keys() & statuses.keys():
            told = [(self._workers.pop(child), statuses[child]) for child in sorted(lost)]
            statuses = processes.kill_children(spared=self._workers)
            for number, status in told:
                self._send({"ended": number, "status": status})

    def _send(self, message: dict[str, Any]) -> None:
        self._control.send(json.dumps(message).encode())

    def _supervise(self, work: Callable[[], object], end: int) -> None:
        """In a new process: supervise a worker."""
        self._control.close()
        os.close(self._signals)
        processes.set_name("autotune:superv")
        processes.supervise(work, child_only=[end])


def _work(serve: Callable[[str, Channel], None], role: str, end: int) -> None:
    """In a new process: be a worker."""
    from autotune.measure.pool.messages import Channel
    from autotune.runtime.cpu.openmp import launches

    launches.forked_before_any()  # a fork server only imports
    processes.set_name(f"autotune:{role}")
    _confine(role)
    serve(role, Channel(socket.socket(fileno=end)))


def _confine(role: str) -> None:
    """Discard output, limit memory, and be the first to be killed when memory runs out."""
    os.dup2(1, 2)  # standard output is /dev/null already
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    if role != "gpu":  # a driver reserves addresses for the memory of all devices
        processes.limit_memory(LARGEST_BUILDER if role == "build" else _runner_limit())


def _runner_limit() -> int:
    """Bytes of memory that a runner may take."""
    from autotune.system.host import available_memory

    free = available_memory()
    return _UNKNOWN_MEMORY if free is None else int(free * RUNNER_SHARE)


if __name__ == "__main__":
    main(sys.argv[1:])
