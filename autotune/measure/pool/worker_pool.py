"""The tuning process's end of its workers: starts them, asks them, ends them, tells how they died.

All waiting happens here, in one place, for whatever comes first of many answers.
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

from autotune.measure.pool.fork_server_client import NurseryProcess
from autotune.measure.pool.messages import (
    Channel,
    ChannelClosedError,
    GarbledMessageError,
    Message,
    channels,
)

_log = logging.getLogger(__name__)

_DYING_S = 2.0
_ANSWERING_S = 10.0
_ENDING_S = 10.0
_LATE_S = 2.0
_LONGEST_WAIT_S = 5.0
"""A signal that comes just before the waiting begins does not end it, and is looked for then."""


class WorkerDiedError(Exception):
    """The process ended before it answered.

    Attributes
    ----------
    signal : signal.Signals or None
        What killed it, or SIGSTOP that kept it from answering, if it was a signal.
    """

    def __init__(self, how: str, killed_by: signal.Signals | None = None) -> None:
        super().__init__(how)
        self.signal = killed_by

    @classmethod
    def of(cls, status: int) -> WorkerDiedError:
        """Return what a wait status says."""
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
    """One worker process, which is asked one thing at a time.

    Attributes
    ----------
    channel : Channel
        To speak with it.
    status : int or None
        Its wait status once it has ended, with all that it started.
    stopped : bool
        Whether it was stopped when it was to end.
    busy : bool
        Whether it has been asked something whose outcome was not told yet.
    deadline : float
        Time by `time.monotonic` at which waiting for it is pointless.
    """

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.status: int | None = None
        self.stopped = False
        self.busy = False
        self.deadline = math.inf
        self._timeout_s = math.inf
        self._silent = False
        self._answering = False
        self._late = False

    @property
    def alive(self) -> bool:
        """Whether it runs, as far as is known."""
        return self.status is None

    @property
    def silent(self) -> bool:
        """Whether it has closed its end of the channel."""
        return self._silent

    def ask(self, body: dict[str, Any], timeout_s: float, payload: bytes = b"") -> None:
        """Send a request; `Crew.next_outcome` tells what came of it."""
        assert not self.busy
        self.busy = True
        self._answering = self._late = False
        self._timeout_s = timeout_s
        self.deadline = time.monotonic() + timeout_s
        # If it cannot be sent, nobody will answer either, which is seen when it is waited for.
        with contextlib.suppress(ChannelClosedError):
            self.channel.send(body, payload, timeout_s)

    def outcome(self) -> Outcome | None:
        """Return what came of the request, None as long as it may be answered; never wait."""
        try:
            message = self.channel.look()
        except GarbledMessageError as error:
            return WorkerDiedError(f"sent {error} instead of an answer")
        except ChannelClosedError:
            message = None
            if not self._silent:  # it has ended, or will
                self._silent = True
                self.deadline = time.monotonic() + _DYING_S
        if message is not None:
            return message
        if self.status is not None:
            return WorkerDiedError.of(self.status)
        late_s = time.monotonic() - self.deadline
        if late_s < 0.0:
            return None
        if self._silent:
            return WorkerDiedError("closed its pipes")
        if late_s > _LATE_S and not self._late:
            # This process was stopped or starved, and so may the worker have been: time anew.
            self._late, self.deadline = True, time.monotonic() + self._timeout_s
            return None
        if self.channel.begun and not self._answering:
            # A long answer cannot be sent as long as nobody reads it, in time as it may have been.
            self._answering, self.deadline = True, time.monotonic() + _ANSWERING_S
            return None
        return WorkerTimeoutError(f"no answer within {self._timeout_s:g} s")


class Crew:
    """Workers that a nursery forks, which is started with the first and replaced if it is lost.

    Parameters
    ----------
    nursery : NurseryProcess, optional
        The first one, if it was started before. It is closed with the crew.
    """

    def __init__(self, nursery: NurseryProcess | None = None) -> None:
        self._nursery = nursery
        self._workers: dict[int, Worker] = {}
        self._count = 0

    def start(self, role: str) -> Worker:
        """Start a worker, which can be asked at once.

        Parameters
        ----------
        role : str
            "build", "run", or "gpu" to run on a GPU.
        """
        if self._nursery is None:
            self._nursery = NurseryProcess()
        channel, end = channels()
        worker = Worker(channel)
        self._count += 1
        self._workers[self._count] = worker
        _log.debug("worker %d starts, to %s", self._count, role)
        with end:
            self._order({"start": self._count, "role": role}, [end.fileno()])
        return worker

    def end(self, worker: Worker) -> None:
        """Kill a worker and all it started; return when they are gone. No harm if they are."""
        number = next((n for n, known in self._workers.items() if known is worker), None)
        if number is not None:
            self._order({"end": number})
            deadline = time.monotonic() + _ENDING_S
            while worker.alive and time.monotonic() < deadline:
                self._hear(deadline)
            if worker.alive:  # the nursery is stopped or stuck
                self._lose_nursery()
        worker.channel.close()

    def refresh(self) -> None:
        """Take in which workers have ended."""
        self._hear(0.0)

    def next_outcome(
        self, workers: Sequence[Worker], until: float = math.inf
    ) -> tuple[Worker, Outcome] | None:
        """Wait for what comes of a request to one of several busy workers.

        A worker that died, or was too slow, is gone when this returns. None comes of it until a
        time by `time.monotonic`.

        Raises
        ------
        AutotuneError
            If workers cannot be started at all.
        """
        while True:
            self._hear(0.0)
            for worker in workers:
                outcome = worker.outcome()
                if outcome is not None:
                    worker.busy = False
                    if not isinstance(outcome, Message):
                        self.end(worker)
                    if isinstance(outcome, WorkerTimeoutError) and worker.stopped:
                        outcome = WorkerDiedError("was stopped", signal.SIGSTOP)
                    return worker, outcome
            if time.monotonic() >= until:
                return None
            self._hear(
                min(until, *(worker.deadline for worker in workers)),
                [worker.channel for worker in workers if not worker.silent],
            )

    def close(self) -> None:
        """End all workers, and the nursery; return when they are gone."""
        self._lose_nursery()

    def _order(self, order: dict[str, Any], fds: Sequence[int] = ()) -> None:
        if self._nursery is not None:
            self._nursery.order(order, fds)

    def _hear(self, deadline: float, channels: Sequence[Channel] = ()) -> None:
        """Take in what the nursery reports; wait for it or a message until a time."""
        if self._nursery is None:
            return
        poller = select.poll()
        poller.register(self._nursery, select.POLLIN)
        for channel in channels:
            poller.register(channel, select.POLLIN)
        deadline = min(deadline, self._nursery.deadline)
        left = min(max(deadline - time.monotonic(), 0.0), _LONGEST_WAIT_S)
        poller.poll(math.ceil(left * 1e3))
        reports = self._nursery.reports()
        if reports is None:
            self._lose_nursery()
            return
        for report in reports:
            worker = self._workers.pop(report["ended"], None)
            if worker is not None:
                worker.status, worker.stopped = report["status"], report["stopped"]
                _log.debug("worker %s has ended, with status %s (stopped: %s)", *report.values())

    def _lose_nursery(self) -> None:
        """End the nursery, if it has not ended, and with it all workers."""
        nursery, self._nursery = self._nursery, None
        workers, self._workers = self._workers, {}
        if nursery is not None:
            nursery.close()
        for worker in workers.values():
            worker.status = signal.SIGKILL
