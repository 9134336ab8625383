"""Which records are meant: of some templates, devices, times and outcomes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from records.tools.keys import is_marked
from records.tools.log_lines import LogLine


@dataclass(frozen=True, kw_only=True)
class LineFilter:
    """Conditions on records; a record must meet all of them.

    `templates`, `targets`: allowed names; any if empty.
    `devices`: the device's name contains one of these texts, in any case; any if empty.
    `since`, `before`: Unix times in seconds; `since` is included, `before` is not.
    `ok`: whether the measurement succeeded; None for both.
    `conflict`: whether merging must have marked the record.
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
