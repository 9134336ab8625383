"""Which records are meant: of some templates, devices, times and outcomes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from records.tools.keys import is_marked
from records.tools.log_lines import LogLine


@dataclass(frozen=True, kw_only=True)
class LineFilter:
    """What records have to be; all of it.

    `templates`, `targets`: one of these names; any if empty.
    `devices`: the name of the device has one of these in it, in whatever case; any if empty.
    `since`, `before`: Unix time in seconds of the earliest one, and of the first that is too late.
    `ok`: whether it succeeded; None for both.
    `conflict`: only those that merging has marked.
    `also`: further conditions.
    """

    templates: frozenset[str] = frozenset()
    targets: frozenset[str] = frozenset()
    devices: tuple[str, ...] = ()
    since: float = -math.inf
    before: float = math.inf
    ok: bool | None = None
    conflict: bool = False
    also: tuple[Callable[[LogLine], bool], ...] = ()

    def __call__(self, line: LogLine) -> bool:
        """Return whether a record is meant."""
        found = line.outline
        return (
            (not self.templates or found.workload["template"] in self.templates)
            and (not self.targets or found.target in self.targets)
            and (not self.devices or self._is_of_device(found.device.get("name")))
            and self.since <= found.timestamp < self.before
            and (self.ok is None or self.ok == (found.cost_s is not None))
            and (not self.conflict or is_marked(line.data))
            and all(condition(line) for condition in self.also)
        )

    def _is_of_device(self, name: object) -> bool:
        known = name.casefold() if isinstance(name, str) else ""
        return any(part.casefold() in known for part in self.devices)
