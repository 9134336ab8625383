"""Facts of the host machine: its processor, its memory, and how much of it this process may use.

Only this file reads them. `system/available_cpus.py` has the CPUs that this process may use. A
process that builds for another machine takes that one's facts in their place (`build_for`).
"""

from __future__ import annotations

import contextlib
import functools
import os
import platform
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

_UNKNOWN_CACHE = 32 << 20
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}

# Facts of the machine that this process builds for, if that is another one.
_elsewhere: dict[str, Any] = {}


def build_for(facts: Mapping[str, Any]) -> None:
    """From now on build code in this process for another machine, which can run nothing of it here.

    facts: of that machine where they are others than here, by the names that `fact` is asked for.
    """
    _elsewhere.clear()
    _elsewhere.update(facts)
    vector_bytes.cache_clear()
    memory_bytes.cache_clear()


def builds_for_another_processor() -> bool:
    """Whether this process builds for a machine whose processor has other instructions."""
    return "llvm" in _elsewhere


def fact(name: str, own: Callable[[], T]) -> T:
    """Return a fact on which code depends: of the machine that is built for, by default our own."""
    found: T = _elsewhere[name] if name in _elsewhere else own()
    return found


def cpuinfo(path: str = "/proc/cpuinfo") -> dict[str, str]:
    """Return Linux's facts of the first processor by field name; {} on other systems."""
    fields: dict[str, str] = {}
    try:
        with open(path, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                name, colon, value = line.partition(":")
                if fields and not colon:
                    break  # the next processor follows
                fields[name.strip()] = value.strip()
    except OSError:
        return {}
    return fields


def processor_name() -> str:
    """Return the name of the processor from Linux, else from Python."""
    return cpuinfo().get("model name") or platform.processor() or platform.machine()


def processor_model() -> str | None:
    """Return numbers that tell processors apart whose names are the same; None if there are none.

    These are family and model, on ARM, where Linux gives no name, implementer and part.
    """
    fields = cpuinfo()
    for first, second in (("cpu family", "model"), ("CPU implementer", "CPU part")):
        if first in fields and second in fields:
            return f"{fields[first]}/{fields[second]}"
    return None


def max_mhz(path: str = "/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq") -> int | None:
    """Return the processor's highest clock in MHz; None where Linux does not know it."""
    try:
        return int(Path(path).read_text(encoding="ascii")) // 1000
    except (OSError, ValueError):
        return None


def cpu_flags() -> frozenset[str]:
    """Features of the processor under Linux's names; empty where it lists none."""
    fields = cpuinfo()
    return frozenset((fields.get("flags") or fields.get("Features") or "").split())


def architecture() -> str:
    """Return the processor's instruction set, such as x86_64."""
    return {"amd64": "x86_64"}.get(name := platform.machine().lower(), name)


@functools.cache
def vector_bytes() -> int:
    """Width of the vector registers in bytes, without asking a compiler."""
    return fact("vector_bytes", _own_vector_bytes)


def _own_vector_bytes() -> int:
    if architecture() != "x86_64":
        return 16
    flags = cpu_flags()
    if "avx512f" in flags:
        return 64
    return 32 if "avx2" in flags else 16


@functools.cache
def memory_bytes() -> int:
    """Size of the memory in bytes, used or not."""
    return fact("memory_bytes", _own_memory_bytes)


def _own_memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def cache_bytes(folder: str = "/sys/devices/system/cpu/cpu0/cache") -> int:
    """Return the size of the processor's largest cache as Linux tells it, else 32 MiB."""
    return fact("cache_bytes", lambda: _own_cache_bytes(folder))


def _own_cache_bytes(folder: str) -> int:
    texts = [path.read_text(encoding="ascii").strip() for path in Path(folder).glob("index*/size")]
    sizes = [
        int(text[:-1]) * _UNITS[text[-1]]
        for text in texts
        if text[:-1].isdecimal() and text[-1] in _UNITS
    ]
    return max(sizes, default=_UNKNOWN_CACHE)


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


def boot_id(path: str = "/proc/sys/kernel/random/boot_id") -> str:
    """Return an identifier of the running machine, equal in all its containers; "" if unknown."""
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except OSError:
        return ""
