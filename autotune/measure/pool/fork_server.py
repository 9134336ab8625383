"""The processes that run untrusted code.

``python -m autotune.measure.pool.fork_server LIFELINE CONTROL`` starts them.

This one becomes a keeper, and its child the *nursery*, which imports everything that is heavy,
once, runs no code of others, and forks builders and runners whenever the tuning process asks: in
milliseconds, each under a keeper of its own. Whichever of all these processes is killed, those
above end what it leaves.
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

from autotune.system.processes import (
    PARENT_DIED,
    adopt_orphans,
    die_by_signal,
    end_children,
    fork_child,
    has_stopped,
    keep,
    limit_memory,
    reap,
    set_name,
    signal_pipe,
    signals_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from autotune.measure.pool.messages import Channel

LARGEST_BUILDER = 1 << 30
"""Bytes of memory that a builder may take: what asks for more is refused it."""

RUNNER_SHARE = 0.75
"""Share of the memory that is free at its birth that a runner may take."""

_UNKNOWN_MEMORY = 1 << 36
_LARGEST_REQUEST = 4096


def main(arguments: list[str]) -> None:
    """Become the keeper of a nursery that takes its orders from the socket CONTROL.

    All end when LIFELINE, a pipe, hangs up.
    """
    lifeline, control = map(int, arguments)
    set_name("autotune:keep")
    keep(partial(_nurse, lifeline, control), lifeline, child_only=[control])


def _nurse(lifeline: int, control: int) -> None:
    os.close(lifeline)
    set_name("autotune:nurse")
    Nursery(socket.socket(fileno=control)).run()


class Nursery:
    """Forks workers, and tells of their ends.

    Orders are JSON objects: ``{"start": number, "role": role}``, with the worker's end of its
    channel; ``{"end": number}``. Numbers are the tuning process's. It is told ``{"ready": true}``,
    and ``{"ended": number, "status": wait status, "stopped": whether it was when it was to end}``
    when nothing is left of a worker.
    """

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._workers: dict[int, int] = {}  # number by the keeper's process id
        self._stopped: set[int] = set()
        self._keeper = os.getppid()
        die_by_signal(PARENT_DIED)
        adopt_orphans()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # workers know this process's number
        self._signals = signal_pipe(signal.SIGCHLD, PARENT_DIED)

    def run(self) -> None:
        """Serve until the tuning process or the keeper is gone."""
        from autotune.measure.pool.worker import serve

        gc.collect()
        gc.freeze()  # what is never looked at again stays shared with the workers
        poller = select.poll()
        poller.register(self._control, select.POLLIN)
        poller.register(self._signals, select.POLLIN)
        try:
            self._tell({"ready": True})
            while os.getppid() == self._keeper:
                events = dict(poller.poll())
                if self._signals in events:
                    signals_of(self._signals)
                    self._tell_of_ends(reap())
                if self._control.fileno() in events and not self._obey(serve):
                    break
        except ConnectionError:
            pass  # the tuning process is gone
        end_children()

    def _obey(self, serve: Callable[[str, Channel], None]) -> bool:
        """Take an order; False if there will be none any more."""
        text, fds, _, _ = socket.recv_fds(self._control, _LARGEST_REQUEST, 1)
        if not text:
            return False
        order = json.loads(text)
        if "start" in order:
            (end,) = fds
            child = fork_child(partial(self._keep, partial(_work, serve, order["role"], end), end))
            os.close(end)
            self._workers[child] = order["start"]
        else:
            for child, number in self._workers.items():
                if number == order["end"]:
                    if has_stopped(child):
                        self._stopped.add(number)
                    os.kill(child, signal.SIGKILL)  # the worker dies with it
        return True

    def _tell_of_ends(self, statuses: dict[int, int]) -> None:
        """Tell of the workers among children that have ended, once nothing is left of them."""
        while lost := self._workers.keys() & statuses.keys():
            told = [(self._workers.pop(child), statuses[child]) for child in sorted(lost)]
            statuses = end_children(spared=self._workers)
            for number, status in told:
                stopped = number in self._stopped
                self._stopped.discard(number)
                self._tell({"ended": number, "status": status, "stopped": stopped})

    def _tell(self, message: dict[str, Any]) -> None:
        self._control.send(json.dumps(message).encode())

    def _keep(self, work: Callable[[], object], end: int) -> None:
        """In a new process: keep a worker."""
        self._control.close()
        os.close(self._signals)
        set_name("autotune:keep")
        keep(work, child_only=[end])


def _work(serve: Callable[[str, Channel], None], role: str, end: int) -> None:
    """In a new process: be a worker."""
    from autotune.measure.pool.messages import Channel
    from autotune.runtime.cpu.openmp import launches

    launches.forked_before_any()  # a nursery only imports
    set_name(f"autotune:{role}")
    _confine(role)
    serve(role, Channel(socket.socket(fileno=end)))


def _confine(role: str) -> None:
    """Let this process speak to nobody else and take little; none is missed less than it."""
    os.dup2(1, 2)  # to where 1 leads: nowhere
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    if role != "gpu":  # a driver reserves addresses for the memory of all devices
        limit_memory(LARGEST_BUILDER if role == "build" else _runner_limit())


def _runner_limit() -> int:
    """Bytes of memory that a runner may take."""
    from autotune.system.available_memory import available_memory

    free = available_memory()
    return _UNKNOWN_MEMORY if free is None else int(free * RUNNER_SHARE)


if __name__ == "__main__":
    main(sys.argv[1:])
