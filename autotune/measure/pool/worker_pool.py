"""The worker pool of the tuning process: starts workers, sends requests, ends workers.

All waiting for workers is done here, in one place: for the first response of several workers.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import select
import signal
import time
from collections.abc import Sequence
from typing import Any

from autotune.measure.pool.fork_server_client import ForkServerProcess
from autotune.measure.pool.messages import (
    Channel,
    ChannelClosedError,
    GarbledMessageError,
    Message,
    channels,
)

_log = logging.getLogger(__name__)

_EXIT_GRACE_S = 2.0
_ENDING_S = 10.0
_DELAY_S = 2.0
# A signal just before the wait does not end it, so the wait is divided into pieces of this length.
_LONGEST_WAIT_S = 5.0


class WorkerDiedError(Exception):
    """The process ended before it sent a response."""

    def __init__(self, how: str, killed_by: signal.Signals | None = None) -> None:
        super().__init__(how)
        self.signal = killed_by  # the signal that killed it; None if it ended otherwise

    @classmethod
    def of(cls, status: int) -> WorkerDiedError:
        """Return a wait status in words."""
        code = os.waitstatus_to_exitcode(status)
        if code == os.EX_IOERR:
            return cls("closed its pipes")
        if code >= 0:
            return cls(f"exited with code {code}")
        killed_by = signal.Signals(-code)
        return cls(f"was killed by {killed_by.name}", killed_by)


class WorkerTimeoutError(Exception):
    """The process did not answer in time and was killed."""


Outcome = Message | WorkerDiedError | WorkerTimeoutError


class Worker:
    """One worker process, which handles one request at a time."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel  # for requests and responses
        # Its wait status, once it and all processes that it started have ended.
        self.status: int | None = None
        self.busy = False  # whether it has a request whose outcome is not known yet
        self.deadline = math.inf  # time by `time.monotonic` at which the request times out
        self._timeout_s = math.inf
        self.channel_closed = False  # whether it has closed its end of the channel
        self._extended = False

    @property
    def alive(self) -> bool:
        """Whether it runs, as far as is known."""
        return self.status is None

    def ask(self, body: dict[str, Any], timeout_s: float, payload: bytes = b"") -> None:
        """Send a request; `WorkerPool.next_outcome` returns the outcome."""
        assert not self.busy
        self.busy = True
        self._extended = False
        self._timeout_s = timeout_s
        self.deadline = time.monotonic() + timeout_s
        # If it cannot be sent, no response will come; `next_outcome` will find that out.
        with contextlib.suppress(ChannelClosedError):
            self.channel.send(body, payload, timeout_s)

    def outcome(self) -> Outcome | None:
        """Return the outcome of the request, or None while it is pending; never wait."""
        try:
            message = self.channel.poll()
        except GarbledMessageError as error:
            return WorkerDiedError(f"sent {error} instead of an answer")
        except ChannelClosedError:
            message = None
            if not self.channel_closed:  # it has ended, or will
                self.channel_closed = True
                self.deadline = time.monotonic() + _EXIT_GRACE_S
        if message is not None:
            return message
        if self.status is not None:
            return WorkerDiedError.of(self.status)
        late_s = time.monotonic() - self.deadline
        if late_s < 0.0:
            return None
        if self.channel_closed:
            return WorkerDiedError("closed its pipes")
        if (late_s > _DELAY_S or self.channel.begun) and not self._extended:
            # This process did not look for long, or the worker waits until it reads: time anew.
            self._extended, self.deadline = True, time.monotonic() + self._timeout_s
            return None
        return WorkerTimeoutError(f"no answer within {self._timeout_s:g} s")


class WorkerPool:
    """Workers of a fork server, which starts with the first one and is replaced if it dies.

    fork_server: the first one, if it was started before. It is closed with the pool.
    """

    def __init__(self, fork_server: ForkServerProcess | None = None) -> None:
        self._fork_server = fork_server
        self._workers: dict[int, Worker] = {}
        self._count = 0

    def start(self, role: str) -> Worker:
        """Start a worker, which can be asked at once.

        role: "build", "run", or "gpu" to run on a GPU.
        """
        if self._fork_server is None:
            self._fork_server = ForkServerProcess()
        channel, end = channels()
        worker = Worker(channel)
        self._count += 1
        self._workers[self._count] = worker
        _log.debug("worker %d starts, to %s", self._count, role)
        with end:
            self._send_order({"start": self._count, "role": role}, [end.fileno()])
        return worker

    def end(self, worker: Worker) -> None:
        """Kill a worker and its children; return when they have ended. It may be repeated."""
        number = next((n for n, known in self._workers.items() if known is worker), None)
        if number is not None:
            self._send_order({"end": number})
            deadline = time.monotonic() + _ENDING_S
            while worker.alive and time.monotonic() < deadline:
                self._receive_reports(deadline)
            if worker.alive:  # the fork server is stopped or stuck
                self.close()
        worker.channel.close()

    def refresh(self) -> None:
        """Read which workers have ended."""
        self._receive_reports(0.0)

    def next_outcome(
        self, workers: Sequence[Worker], until: float = math.inf
    ) -> tuple[Worker, Outcome] | None:
        """Wait for the first outcome of requests to several busy workers.

        A worker that died or timed out has ended when this returns. Return None at the time
        `until`, by `time.monotonic`.

        AutotuneError if workers cannot be started at all.
        """
        while True:
            self._receive_reports(0.0)
            for worker in workers:
                outcome = worker.outcome()
                if outcome is not None:
                    worker.busy = False
                    if not isinstance(outcome, Message):
                        self.end(worker)
                    return worker, outcome
            if time.monotonic() >= until:
                return None
            self._receive_reports(
                min(until, *(worker.deadline for worker in workers)),
                [worker.channel for worker in workers if not worker.channel_closed],
            )

    def _send_order(self, order: dict[str, Any], fds: Sequence[int] = ()) -> None:
        if self._fork_server is not None:
            self._fork_server.send_order(order, fds)

    def _receive_reports(self, deadline: float, channels: Sequence[Channel] = ()) -> None:
        """Read the reports of the fork server; wait for one, or for a message, until a deadline."""
        if self._fork_server is None:
            return
        poller = select.poll()
        poller.register(self._fork_server, select.POLLIN)
        for channel in channels:
            poller.register(channel, select.POLLIN)
        deadline = min(deadline, self._fork_server.deadline)
        left = min(max(deadline - time.monotonic(), 0.0), _LONGEST_WAIT_S)
        poller.poll(math.ceil(left * 1e3))
        reports = self._fork_server.reports()
        if reports is None:
            self.close()
            return
        for report in reports:
            worker = self._workers.pop(report["ended"], None)
            if worker is not None:
                worker.status = report["status"]
                _log.debug("worker %s has ended, with status %s", *report.values())

    def close(self) -> None:
        """End the fork server, if it has not ended, and with it all workers; return after that."""
        fork_server, self._fork_server = self._fork_server, None
        workers, self._workers = self._workers, {}
        if fork_server is not None:
            fork_server.close()
        for worker in workers.values():
            worker.status = signal.SIGKILL
