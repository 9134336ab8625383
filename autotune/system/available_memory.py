"""The memory that this process may still use: free memory and the limit of its control group."""

from __future__ import annotations

import contextlib
from pathlib import Path


def available_memory(root: str = "/") -> int | None:
    """Return the bytes that this process may still use, as far as Linux reports them."""
    free: list[int] = []
    with contextlib.suppress(OSError, ValueError):
        for line in (Path(root) / "proc/meminfo").read_text().splitlines():
            name, _, size = line.partition(":")
            if name == "MemAvailable":
                free = [1024 * int(size.split()[0])]
    group = Path(root) / "sys/fs/cgroup"
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        with contextlib.suppress(OSError, ValueError):  # none, or "max"
            free.append(int((group / limit).read_text()) - int((group / used).read_text()))
    return min(free, default=None)
