"""Where the devices of a fleet are: an address of Ray, or a cluster of this machine's own."""

from __future__ import annotations

import re
from dataclasses import dataclass

from autotune.errors import UsageError

AUTO, LOCAL = "auto", "local"
MAX_NODES = 64  # Simulated nodes: each starts processes of Ray.

_FORM = "ray://HOST:PORT, HOST:PORT, auto, local or local:N"
_REMOTE = re.compile(r"(ray://)?[^\s/:]+:\d{1,5}")


@dataclass(frozen=True)
class Address:
    """The address of a cluster."""

    #: "ray://HOST:PORT", "HOST:PORT", "auto" or "local".
    text: str
    #: Simulated nodes of a local cluster; 0 for one node that is this machine.
    nodes: int = 0

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read ``ray://HOST:PORT``, ``HOST:PORT``, ``auto``, ``local`` or ``local:N``.

        UsageError if it is none of these.
        """
        if text in (AUTO, LOCAL):
            return cls(text)
        kind, _, count = text.partition(":")
        if kind == LOCAL:
            if not count.isdecimal() or not 1 <= int(count) <= MAX_NODES:
                raise UsageError(f"must be local:N with N from 1 to {MAX_NODES}, not {text!r}")
            return cls(LOCAL, int(count))
        if not _REMOTE.fullmatch(text):
            raise UsageError(f"must be {_FORM}, not {text!r}")
        return cls(text)

    @property
    def is_local(self) -> bool:
        """Whether the cluster is started for the run, on this machine."""
        return self.text == LOCAL

    def __str__(self) -> str:
        return f"{self.text}:{self.nodes}" if self.nodes else self.text
