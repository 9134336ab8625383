"""Builders and runners: how a worker process handles the requests of the tuning process."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from autotune.measure.build_bench import BuildBench
from autotune.measure.candidate import CandidateError, WorkloadDescription, describe
from autotune.measure.pool.messages import BYTES_AS_TEXT, Channel, ChannelClosedError, Message
from autotune.measure.result import MeasureErrorNo
from autotune.measure.run_bench import RunBench
from autotune.measure.timing_policy import TimingPolicy
from autotune.runtime.backends import backend_of
from autotune.runtime.device import Binary
from autotune.runtime.prepared_binary import PreparedBinary
from autotune.system.processes import (
    adopt_orphans,
    die_by_signal,
    is_terminating,
    kill_children,
    refuse_forks,
)
from autotune.target import Target
from autotune.task.task import Task
from search_spaces import Config

LOST = os.EX_IOERR
"""Exit code of a worker that has lost its channel."""

Operation = Callable[[dict[str, Any], bytes], Message]


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
    """Do what a request asks for; return what came of it, errors included."""
    begin, begin_s = time.time(), time.perf_counter()
    try:
        body, payload = operation(*request)
    except CandidateError as error:
        body, payload = _failure(error), b""
    except Exception as error:  # of the measurer itself: without a word, nobody could mend it
        unknown = CandidateError(MeasureErrorNo.UNKNOWN, request.body["op"], describe(error))
        body, payload = _failure(unknown), b""
    seconds = time.perf_counter() - begin_s
    return Message({**body, "seconds": seconds, "span": (begin, begin + seconds)}, payload)


def _failure(error: CandidateError) -> dict[str, Any]:
    failure = {"code": error.code, "stage": error.stage, "message": error.message}
    return {"error": failure, "max_error": error.max_error, "fatal": error.fatal}


def _task(request: dict[str, Any]) -> Task:
    """Return the task that a request to open it names; nothing is traced yet."""
    sys.path += [folder for folder in request["path"] if folder not in sys.path]
    text = None if request["text"] is None else request["text"].encode(BYTES_AS_TEXT)
    return Task.from_reference(
        request["template"],
        request["args"],
        request["target"],
        text=text,
        constant=request["constant"],
    )


def _refusing(operation: Operation) -> Operation:
    """Let an operation that prepares for candidates answer errors as ``{"refused": one line}``."""

    def run(request: dict[str, Any], payload: bytes) -> Message:
        try:
            return operation(request, payload)
        except BaseException as error:  # a template may raise whatever it likes
            return Message({"refused": describe(error)})

    return run


class Builder:
    """Answers "open" and "build"."""

    def __init__(self) -> None:
        self.operations = {"open": _refusing(self._open), "build": self._build}
        self._bench: BuildBench | None = None

    def _open(self, request: dict[str, Any], _: bytes) -> Message:
        self._bench = BuildBench(_task(request), request["arch"])
        if not request["describe"]:
            self._bench.warm_up()
            return Message({})
        subject, unscheduled = self._bench.subject()
        return _with_binary({"subject": subject.to_json()}, unscheduled)

    def _build(self, request: dict[str, Any], _: bytes) -> Message:
        assert self._bench is not None
        self._bench.add_known(request["known"])
        built = self._bench.build(Config.from_json(request["config"]).values, request["again"])
        kernels = None if built.binary is None else built.binary.resources
        body = {"code_hash": built.code_hash, "kernels": kernels}
        return _with_binary(body, built.binary)


class Runner:
    """Answers "open", "run", "enter", "round", "ceiling" and "baseline"."""

    def __init__(self) -> None:
        self.operations = {
            "open": _refusing(self._open),
            "run": self._run,
            "enter": self._enter,
            "round": self._round,
            "ceiling": self._ceiling,
            "baseline": self._baseline,
        }
        self._bench: RunBench | None = None
        self._target = Target("llvm")
        self._entered: dict[int, Any] = {}

    def _open(self, request: dict[str, Any], payload: bytes) -> Message:
        subject = WorkloadDescription.from_json(request["subject"])
        self._target = Target.of(subject.target)
        unscheduled = None
        if request["check"] and request["binary"] is not None:
            host = backend_of(self._target.host)
            code = host.read_binary(payload)
            unscheduled = host.take_device(self._target.host).load(code)
        task = _task(request)
        device = backend_of(self._target).take_device(self._target)
        self._bench = RunBench(
            device,
            subject,
            task.reference if request["check"] else None,
            unscheduled,
            TimingPolicy.from_json(request["policy"]),
            request["seed"],
            task.inputs,
        )
        if device.is_host:
            refuse_forks()  # from now on there are only kernels to run
        bench = self._bench
        told = {"reference": bench.reference, "notes": bench.notes, "checks": bench.checks}
        return Message(told)

    def _run(self, request: dict[str, Any], payload: bytes) -> Message:
        assert self._bench is not None
        return Message(vars(self._bench.run(self._loaded(payload), request["incumbent_s"])))

    def _enter(self, request: dict[str, Any], payload: bytes) -> Message:
        assert self._bench is not None
        loaded = self._loaded(payload)
        max_error = self._bench.enter(loaded)
        self._entered[request["number"]] = loaded
        return Message({"max_error": max_error})

    def _round(self, request: dict[str, Any], _: bytes) -> Message:
        assert self._bench is not None
        kernels = [self._entered[number] for number in request["numbers"]]
        done = self._bench.round(kernels, request["seconds"], request["seed"])
        return Message({"costs_s": done.costs_s, "noise": done.noise, "clocks": done.clocks})

    def _ceiling(self, _request: dict[str, Any], _: bytes) -> Message:
        assert self._bench is not None
        known = len(self._bench.notes)
        ceiling = self._bench.ceiling().to_json()
        return Message({"ceiling": ceiling, "notes": self._bench.notes[known:]})

    def _baseline(self, _request: dict[str, Any], _: bytes) -> Message:
        assert self._bench is not None
        return Message({"baseline": self._bench.baseline()})

    def _loaded(self, payload: bytes) -> Any:
        """Load a candidate."""
        assert self._bench is not None
        read = backend_of(self._target).read_binary
        prepared = self._bench.subject.constant
        return self._bench.load(
            PreparedBinary.from_bytes(payload, read) if prepared else read(payload)
        )


def _with_binary(body: dict[str, Any], code: Binary | None) -> Message:
    """Return a message that carries machine code, if there is any."""
    if code is None:
        return Message({**body, "binary": None})
    return Message({**body, "binary": {}}, code.to_bytes())
