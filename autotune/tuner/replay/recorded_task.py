"""The task of a recorded space: a session runs on it as on any other, but nothing can be built."""

from __future__ import annotations

from typing import Any, NoReturn

from autotune.errors import UsageError
from autotune.measure.recorded_measurer import Recording
from autotune.runtime.signature import ArrayParameter
from autotune.task.task import Task
from autotune.template import Template
from search_spaces.space import Space


class RecordedTask(Task):
    """A workload whose configurations are those of a recording, which must be measured by it.

    recording: its space, and its name, which becomes that of the template.
    """

    flops: float | None = None
    bytes = 0.0

    def __init__(self, recording: Recording) -> None:
        super().__init__(Template(recording.name, None, _not_here), {})
        self._recorded_space = recording.space
        self._fingerprint = recording.space.fingerprint()

    @property
    def space(self) -> Space:
        """The configurations that were recorded."""
        return self._recorded_space

    @property
    def arguments(self) -> list[ArrayParameter]:
        """A number, since the arrays are not known."""
        return [ArrayParameter("out", "float32", (1,), is_output=True)]

    @property
    def default_index(self) -> int:
        """The default configuration of the space; SpaceError if there is none."""
        return self.space.default_index

    def refusal(self, index: int) -> str:
        """Return the rule of the space that rejects a configuration; empty if it is recorded."""
        broken = self.space.broken(index)
        return "" if broken is None else broken.name

    def fingerprints_of(self, index: int) -> dict[str, str]:
        """Return the digest of the space in place of digests of a template."""
        return {"space": self._fingerprint, "template": self._fingerprint}

    def steps_of(self, index: int) -> list[Any] | None:
        """Return None: the schedule is not known."""
        return None


def _not_here() -> NoReturn:
    raise UsageError("a recorded space has no template")
