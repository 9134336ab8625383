"""The worker process: ``python -m autotune.measure.worker READ_FD WRITE_FD PARENT_PID``.

It runs code nobody has run before, so it expects to be killed at any moment: it owns nothing but
memory, speaks on pipes of its own (1 and 2 lead nowhere), and never outlives its parent.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import sys
import threading
import time
from typing import Any

from autotune.measure.candidate import CandidateError, describe
from autotune.measure.protocol import Channel, ChannelClosedError
from autotune.processes import die_by_signal, die_with
from search_spaces import Config


def main(arguments: list[str]) -> None:
    """Answer requests until the parent closes its end or dies."""
    read_fd, write_fd, parent = (int(argument) for argument in arguments)
    die_with(parent)
    threading.Thread(target=_watch, args=(read_fd,), daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent to handle
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    channel = Channel(read_fd, write_fd)
    os.register_at_fork(after_in_child=lambda: _leave_to_parent(channel))
    server = Server()
    os.dup2(1, 2)  # what comes now are the templates' words: to fd 1, which leads nowhere
    channel.send({"ready": os.getpid()})
    while True:
        try:
            request = channel.receive()
        except ChannelClosedError:
            return
        channel.send(server.answer(request))


def _watch(read_fd: int) -> None:
    """Kill the process group once nobody holds the other end of the request pipe."""
    poller = select.poll()
    poller.register(read_fd, 0)  # hang-up is reported unasked
    poller.poll()
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


def _leave_to_parent(channel: Channel) -> None:
    """In a process forked by a template: die with the worker, and never answer in its place."""
    die_by_signal()
    channel.close()


class Server:
    """Answers one request after the other; keeps the workbench between them."""

    def __init__(self) -> None:
        # The heavy imports, before the first request rather than within its time.
        from autotune.measure import build_bench, run_bench
        from autotune.runtime import llvm
        from autotune.task import Task

        self._build_bench = build_bench.BuildBench
        self._run_bench = run_bench.RunBench
        self._load = llvm.LoadedBinary
        self._task = Task
        self._builder: build_bench.BuildBench | None = None
        self._runner: run_bench.RunBench | None = None
        self._kernel: llvm.LoadedBinary | None = None

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request: "open", "build", "run" or "ceiling"."""
        operations = {
            "open": self._open,
            "build": self._build,
            "run": self._run,
            "ceiling": self._ceiling,
        }
        begin = time.perf_counter()
        try:
            reply = operations[request["op"]](request)
        except CandidateError as error:
            failure = {"code": error.code, "stage": error.stage, "message": error.message}
            reply = {"error": failure, "max_error": error.max_error}
        reply["seconds"] = time.perf_counter() - begin
        return reply

    def _open(self, request: dict[str, Any]) -> dict[str, Any]:
        """Trace the template, draw inputs, compute the right answer."""
        from autotune.errors import AutotuneError
        from autotune.measure.policy import TimingPolicy

        sys.path += [folder for folder in request["path"] if folder not in sys.path]
        try:
            task = self._task.from_reference(
                request["template"], request["args"], request["target"]
            )
            self._builder = self._build_bench(task, request["known"])
            subject, unscheduled = self._builder.subject()
            self._runner = self._run_bench(
                subject,
                task.reference,
                None if unscheduled is None else self._load(unscheduled),
                TimingPolicy.from_json(request["policy"]),
                request["seed"],
            )
        except AutotuneError as error:
            return {"refused": str(error)}
        except (Exception, SystemExit) as error:
            return {"refused": describe(error)}
        return {"reference": self._runner.reference}

    def _build(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._builder is not None
        built = self._builder.build(Config.from_json(request["config"]).values)
        self._kernel = None if built.binary is None else self._load(built.binary)
        return {"code_hash": built.code_hash, "fresh": built.binary is not None}

    def _run(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._runner is not None
        assert self._kernel is not None
        ran = self._runner.run(self._kernel)
        return {"costs_s": ran.costs_s, "max_error": ran.max_error}

    def _ceiling(self, _: dict[str, Any]) -> dict[str, Any]:
        assert self._runner is not None
        return {"ceiling": self._runner.ceiling().to_json()}


if __name__ == "__main__":
    main(sys.argv[1:])
