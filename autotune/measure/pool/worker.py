"""A worker process: it answers the requests of the tuning process, one after the other."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

from autotune.measure.candidate import CandidateError, describe
from autotune.measure.pool.build_worker import Builder
from autotune.measure.pool.messages import Channel, ChannelClosedError, Message
from autotune.measure.pool.run_worker import Runner
from autotune.measure.result import MeasureErrorNo
from autotune.system.processes import adopt_orphans, die_by_signal, is_terminating, kill_children

# Takes the body and the payload of a request; returns the answer.
Operation = Callable[[dict[str, Any], bytes], Message]

LOST = os.EX_IOERR  # Exit code of a worker that has lost its channel.


def serve(role: str, channel: Channel) -> None:
    """Answer requests to a "build", "run" or "gpu" worker until nobody asks any more.

    Every answer holds "seconds", which it took, and "span", the Unix times between which.
    """
    worker, supervisor = os.getpid(), os.getppid()
    adopt_orphans()
    os.register_at_fork(after_in_child=lambda: _leave_to_parent(channel))
    operations = (Builder() if role == "build" else Runner()).operations
    while True:
        try:
            request = channel.receive()
            told = answer(operations[request.body["op"]], request)
            if os.getpid() == worker:  # else a template has forked
                kill_children()
                while os.getppid() != supervisor or is_terminating(supervisor):
                    signal.pause()  # the candidate has killed its supervisor, and this will end too
                channel.send(*told)
                continue
        except ChannelClosedError:
            pass
        os._exit(LOST)


def _leave_to_parent(channel: Channel) -> None:
    """In a process forked by a template: die with the worker, and never answer in its place."""
    die_by_signal()
    channel.close()


def answer(operation: Operation, request: Message) -> Message:
    """Do what a request asks for; return what came of it, errors included.

    Errors of "open", which prepares for candidates, are ``{"refused": one line}``.
    """
    op, begin, begin_s = request.body["op"], time.time(), time.perf_counter()
    try:
        body, payload = operation(*request)
    except CandidateError as error:
        body, payload = _failure(error), b""
    except BaseException as error:  # a template may raise whatever it likes
        payload = b""
        if op == "open":
            body = {"refused": describe(error)}
        elif isinstance(error, Exception):  # of the measurer: without a word, nobody could mend it
            body = _failure(CandidateError(MeasureErrorNo.UNKNOWN, op, describe(error)))
        else:
            raise
    seconds = time.perf_counter() - begin_s
    return Message({**body, "seconds": seconds, "span": (begin, begin + seconds)}, payload)


def _failure(error: CandidateError) -> dict[str, Any]:
    failure = {"code": error.code, "stage": error.stage, "message": error.message}
    return {"error": failure, "max_error": error.max_error, "fatal": error.fatal}
