"""Programs as text, for models: loops, schedule steps, and a hash of the source."""

from __future__ import annotations

import hashlib
import logging
from typing import Any, TypedDict

from autotune.builder import BuiltFunction
from autotune.errors import AutotuneError
from autotune.lowering.finalise import listing
from autotune.task.task import Task

_log = logging.getLogger(__name__)


class ProgramText(TypedDict):
    """The program texts of a configuration; None where they cannot be made."""

    loops: str | None
    steps: list[Any] | None
    source_hash: str | None


def program_of(task: Task, index: int) -> ProgramText:
    """Return the program of a configuration.

    ``source_hash`` is 16 hexadecimal digits of the SHA-256 of the generated source. If the record's
    target names no processor, the source is for this processor, or for one with the vector width of
    the record.
    """
    found: ProgramText = {"loops": None, "steps": None, "source_hash": None}
    try:
        found["steps"] = task.steps_of(index)
        found["loops"] = str(listing(task.function(index))).rstrip()
        main = task.prepared_of(task.space.config(index).values).main
        source = BuiltFunction(main, task.target).source
        found["source_hash"] = hashlib.sha256(source.encode()).hexdigest()[:16]
    except AutotuneError as error:
        _log.info("%s, configuration %d: %s", task.workload, index, error)
    return found
