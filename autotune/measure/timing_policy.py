"""How a candidate is timed, as data: it goes to the worker and into every record."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from autotune.errors import UsageError

FLUSHES = ("off", "repeats")  # When the caches are flushed.


@dataclass(frozen=True)
class TimingPolicy:
    """How a candidate is timed."""

    # Calls before the first timed one, >= 1; the checked call is the first of them.
    warmup: int = 1
    repeats: int = 5  # Costs to take, >= 1; a candidate counts by their median.
    # A repeat calls the kernel in a loop that lasts at least this long; its cost is the mean.
    min_repeat_ms: float = 8.0
    # No further repeat begins after this much timed running, so that slow candidates, whose timing
    # is relatively exact anyway, do not hold up the run.
    budget_ms: float = 250.0
    # {"off", "repeats"}: "off" times a kernel on data as warm as its own calls leave them.
    # "repeats" evicts the caches before each repeat, which is then a single call, whatever
    # `min_repeat_ms` says: the second call in a row would find warm data again.
    flush: str = "off"
    # A candidate even whose fastest repeat is slower than this many times the fastest candidate so
    # far gets no further repeats; 0 lets every candidate finish, as a noisy machine does.
    race: float = 1.5

    def __post_init__(self) -> None:
        for name in ("warmup", "repeats"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise UsageError(f"timing policy: {name} must be a whole number >= 1, not {value}")
        for name in ("min_repeat_ms", "budget_ms"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
                raise UsageError(f"timing policy: {name} must be milliseconds >= 0, not {value}")
        if self.flush not in FLUSHES:
            known = " or ".join(FLUSHES)
            raise UsageError(f"timing policy: flush must be {known}, not {self.flush}")
        if not _is_race(self.race):
            raise UsageError(
                f"timing policy: race must be a factor > 1, or 0 for no racing, not {self.race}"
            )

    def comparable(self, recorded: Mapping[str, Any]) -> bool:
        """Whether times by a record's policy can be compared with times by this one.

        What an old record does not mention had the default; racing changes how many repeats
        losers get, not what a time means.
        """
        taken = {**_DEFAULTS, **recorded}
        own = self.to_json()
        return all(taken.get(name) == own.get(name) for name in {*taken, *own} - {"race"})

    def to_json(self) -> dict[str, int | float | str]:
        """Return the policy as records keep it."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TimingPolicy:
        """Rebuild a policy from the result of `to_json`.

        UsageError if a setting is unknown or out of range.
        """
        unknown = sorted(set(data) - {f.name for f in fields(cls)})
        if unknown:
            raise UsageError(f"timing policy: unknown setting(s) {', '.join(unknown)}")
        return cls(**data)


def _is_race(value: object) -> bool:
    """Whether a value can be a policy's `race`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) and (value == 0 or value > 1)


_DEFAULTS: dict[str, Any] = {f.name: f.default for f in fields(TimingPolicy)}
