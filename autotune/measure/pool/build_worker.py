"""What a builder does: it turns configurations of a template into machine code."""

from __future__ import annotations

import pickle
import sys
from typing import Any

from autotune.measure.build_bench import BuildBench
from autotune.measure.pool.messages import BYTES_AS_TEXT, Message
from autotune.runtime.device import Binary
from autotune.task.task import Task
from search_spaces import Config


def requested_task(request: dict[str, Any]) -> Task:
    """Return the task that a request to open it names; nothing is traced yet."""
    sys.path += [folder for folder in request["path"] if folder not in sys.path]
    text = None if request["text"] is None else request["text"].encode(BYTES_AS_TEXT)
    template, args, target = request["template"], request["args"], request["target"]
    return Task.from_reference(template, args, target, text=text, constant=request["constant"])


class Builder:
    """Answers "open" and "build"."""

    def __init__(self) -> None:
        self.operations = {"open": self._open, "build": self._build}
        self._bench: BuildBench | None = None

    def _open(self, request: dict[str, Any], _: bytes) -> Message:
        self._bench = BuildBench(requested_task(request), request["arch"])
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


def _with_binary(body: dict[str, Any], code: Binary | None) -> Message:
    """Return a message that carries machine code, if there is any."""
    if code is None:
        return Message({**body, "binary": None})
    return Message({**body, "binary": {}}, pickle.dumps(code))
