"""A worker process: it answers the requests of the tuning process, one after the other.

A *builder* turns configurations of a template into machine code; a *runner* checks the answers of
candidates and times them.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from autotune.measure.build_bench import BuildBench
from autotune.measure.candidate import CandidateError, ElsewhereError, describe
from autotune.measure.pool.messages import BYTES_AS_TEXT, Channel, ChannelClosedError, Message
from autotune.measure.result import MeasureErrorNo
from autotune.measure.run_bench import RunBench
from autotune.measure.several_shapes import SeveralShapes
from autotune.measure.timing_policy import TimingPolicy
from autotune.runtime.backends import backend_of
from autotune.runtime.callable_function import CallableBinary
from autotune.system import host
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


class Runner:
    """Answers "open", "load", "run", "enter", "round", "ceiling" and "baseline"."""

    _bench: RunBench | SeveralShapes  # from "open" on

    def __init__(self) -> None:
        self.operations = {
            "open": self._open,
            "load": self._load,
            "run": self._run,
            "enter": self._enter,
            "round": self._round,
            "ceiling": self._ceiling,
            "baseline": self._baseline,
        }
        self._entered: dict[int, Any] = {}
        self._ready: Any = None  # what "load" has loaded

    def _open(self, request: dict[str, Any], payload: bytes) -> Message:
        subjects = pickle.loads(payload)
        target = Target.of(subjects[0][0].target)
        device = backend_of(target).take_device(target)
        benches = []
        members = requested_task(request).members
        for task, (subject, unscheduled) in zip(members, subjects, strict=True):
            computed = None
            if request["check"] and unscheduled is not None:
                host = backend_of(target.host).take_device(target.host)
                computed = unscheduled.loaded(host.load)
            bench = RunBench(
                device,
                subject,
                task.reference if request["check"] else None,
                computed,
                TimingPolicy.from_json(request["policy"]),
                request["seed"],
                task.inputs,
                task.callable_of,
                task.accept if request["check"] else None,
            )
            benches.append(bench)
        self._bench = benches[0] if len(benches) == 1 else SeveralShapes(benches)
        if device.is_host:
            refuse_forks()  # from now on there are only kernels to run
        own = self._bench
        told = {"reference": own.reference, "notes": own.notes, "checks": own.checks}
        return Message(told)

    def _load(self, _: dict[str, Any], payload: bytes) -> Message:
        self._ready = self._loaded(payload)
        self._bench.call_first(self._ready)
        return Message({})

    def _run(self, request: dict[str, Any], payload: bytes) -> Message:
        loaded = self._loaded(payload) if payload else self._ready
        return Message(vars(self._bench.run(loaded, request["incumbent_s"])))

    def _enter(self, request: dict[str, Any], payload: bytes) -> Message:
        loaded = self._loaded(payload)
        max_error = self._bench.enter(loaded)
        self._entered[request["number"]] = loaded
        return Message({"max_error": max_error})

    def _round(self, request: dict[str, Any], _: bytes) -> Message:
        kernels = [self._entered[number] for number in request["numbers"]]
        done = self._bench.round(kernels, request["seconds"], request["seed"])
        return Message({"costs_s": done.costs_s, "noise": done.noise, "clocks": done.clocks})

    def _ceiling(self, _request: dict[str, Any], _: bytes) -> Message:
        known = len(self._bench.notes)
        ceiling = self._bench.ceiling().to_json()
        return Message({"ceiling": ceiling, "notes": self._bench.notes[known:]})

    def _baseline(self, _request: dict[str, Any], _: bytes) -> Message:
        return Message({"baseline": self._bench.baseline()})

    def _loaded(self, payload: bytes) -> Any:
        """Load a candidate."""
        return self._bench.load(pickle.loads(payload))


def requested_task(request: dict[str, Any]) -> Task:
    """Return the task that a request to open it names; nothing is traced yet."""
    sys.path += [folder for folder in request["path"] if folder not in sys.path]
    text = None if request["text"] is None else request["text"].encode(BYTES_AS_TEXT)
    template, args, target = request["template"], request["args"], request["target"]
    return Task.from_reference(template, args, target, text=text, constant=request["constant"])


class Builder:
    """Answers "open" and "build"."""

    _bench: BuildBench  # from "open" on
    _is_elsewhere: bool  # Whether another machine may build instead, and runs the candidates.

    def __init__(self) -> None:
        self.operations = {"open": self._open, "build": self._build}

    def _open(self, request: dict[str, Any], _: bytes) -> Message:
        self._is_elsewhere = "made_for" in request
        if request.get("made_for"):  # before anything asks for facts of this machine
            host.build_for(request["made_for"])
        self._bench = BuildBench(requested_task(request), request["arch"])
        if not request["describe"]:
            self._bench.warm_up()
            return Message({})
        return Message({}, pickle.dumps(self._bench.subjects()))

    def _build(self, request: dict[str, Any], _: bytes) -> Message:
        self._bench.add_known(request["known"])
        values = Config.from_json(request["config"]).values
        try:
            built = self._bench.build(values, request["again"])
        except ElsewhereError as error:
            return Message({"elsewhere": str(error)})
        except CandidateError as error:
            if self._is_elsewhere and error.lacks_compiler:
                return Message({"elsewhere": error.message})
            raise
        kernels = None if built.binary is None else built.binary.resources
        code = b"" if built.binary is None else pickle.dumps(built.binary)
        late = isinstance(built.binary, CallableBinary)
        body = {"code_hash": built.code_hash, "kernels": kernels, "compiles_late": late}
        return Message(body, code)


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
    """Execute a request; return its response, errors included.

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
