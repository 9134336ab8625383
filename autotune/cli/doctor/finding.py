"""What a check of `autotune doctor` returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Finding(NamedTuple):
    """A problem, and what to do about it."""

    what: str
    remedy: str
    problem: bool = True  # Whether something that should work does not; otherwise this is a note.


@dataclass(frozen=True)
class Check:
    """The result of one check."""

    name: str
    text: str  # one line
    facts: Mapping[str, Any] = field(default_factory=dict)  # for programs; fit for JSON
    findings: tuple[Finding, ...] = ()
