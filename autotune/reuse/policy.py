"""The reuse policy of a build: which records it admits, and what it does if there is none.

In: the user's options. Out: a checked `ReusePolicy`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from autotune.errors import UsageError
from autotune.reuse.grades import Grade
from autotune.system.words import did_you_mean

# What a build does where no record is admitted: raise an error, take the default configuration,
# take the nearest record of any grade, or tune first.
MISSING = ("error", "default", "nearest", "tune")
DEVICES = ("same", "any")


@dataclass(frozen=True, kw_only=True)
class ReusePolicy:
    """Which records a build may use, and what it does without any.

    `reuse`: the most distant `Grade` that is admitted.
    `devices`: "any" also admits records of the same workload from any device.
    `missing`: one of `MISSING`.
    `guard`: whether the chosen configuration and the default are timed once, and the faster is
        built.

    UsageError if a value is none of these.
    """

    reuse: str = "exact"
    devices: str = "same"
    missing: str = "default"
    guard: bool = False

    def __post_init__(self) -> None:
        _expect("reuse", self.reuse, [str(grade) for grade in Grade])
        _expect("devices", self.devices, DEVICES)
        _expect("missing", self.missing, MISSING)
        if not isinstance(self.guard, bool):
            raise UsageError(f"guard is {self.guard!r}: expected True or False")

    @property
    def any_device(self) -> bool:
        """Whether records of the same workload are admitted whatever device they are from."""
        return self.devices == "any"


def _expect(name: str, value: Any, known: Any) -> None:
    if not isinstance(value, str) or value not in known:
        raise UsageError(f"{name} is {value!r}: {did_you_mean(str(value), known)}")
