"""What builders and runners have in common: operations that answer a request."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from autotune.measure.candidate import describe
from autotune.measure.pool.messages import BYTES_AS_TEXT, Message
from autotune.task.task import Task

Operation = Callable[[dict[str, Any], bytes], Message]
"""Takes the body and the payload of a request; returns the answer."""


def requested_task(request: dict[str, Any]) -> Task:
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


def refusing(operation: Operation) -> Operation:
    """Let an operation that prepares for candidates answer errors as ``{"refused": one line}``."""

    def run(request: dict[str, Any], payload: bytes) -> Message:
        try:
            return operation(request, payload)
        except BaseException as error:  # a template may raise whatever it likes
            return Message({"refused": describe(error)})

    return run
