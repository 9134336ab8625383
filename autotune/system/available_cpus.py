"""How many threads this process may use: its CPU affinity and its share by control groups."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from autotune.system import host
from autotune.system.interrupts import ThreadedCall

T = TypeVar("T")

# Where a group of version 2 or 1 has a time, and the period that it is of.
_QUOTA_FILES = (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us"))


def available_cpus() -> int:
    """CPUs this process may run on, at least 1."""
    return host.fact("cpus", _own_cpus)


def _own_cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


@functools.cache
def quota_cpus(root: str = "/sys/fs/cgroup", own: str = "/proc/self/cgroup") -> int | None:
    """CPUs' worth of time that control groups (version 2 or 1) grant, rounded up; None if any."""
    quotas = [
        [number for name in names for number in _numbers(folder / name)]
        for folder in _groups(Path(root), own)
        for names in _QUOTA_FILES
    ]
    return min((math.ceil(q[0] / q[1]) for q in quotas if len(q) == 2 and min(q) > 0), default=None)


def _groups(root: Path, own: str) -> list[Path]:
    """Folders that may hold a limit of this process: its groups and those above them."""
    folders = [root, root / "cpu", root / "cpu,cpuacct"]
    try:
        lines = Path(own).read_text(encoding="utf-8").splitlines()
    except OSError:
        return folders
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        base = root / controllers if controllers else root
        parts = [part for part in path.split("/") if part]
        folders += [base.joinpath(*parts[:i]) for i in range(1, len(parts) + 1)]
    return folders


def _numbers(path: Path) -> list[int]:
    try:
        return [int(word) for word in path.read_text(encoding="utf-8").split() if word != "max"]
    except (OSError, ValueError):
        return []


def thread_count(most: int | None = None) -> int:
    """Threads that a parallel loop asks for: `Target.threads`, else by affinity and quota."""
    return host.fact("threads", _own_threads) if most is None else most


def _own_threads() -> int:
    cpus = available_cpus()
    quota = quota_cpus()
    return cpus if quota is None else min(cpus, quota)


def run_in_threads(jobs: Sequence[Callable[[], T]], most: int) -> list[T]:
    """Run jobs in at most this many threads, and at most one per CPU; return their results.

    One job, or one CPU, needs no thread. An exception of a job is raised when all jobs have ended.
    """
    threads = min(most, len(jobs), thread_count())
    if threads < 2:
        return [job() for job in jobs]
    found: dict[int, T] = {}
    rest = iter(list(enumerate(jobs)))

    def work() -> None:
        for number, job in rest:
            found[number] = job()

    try:
        asides = [ThreadedCall(work) for _ in range(threads)]
        for aside in asides:
            aside.wait()
    except KeyboardInterrupt:  # the other results are no longer needed
        for _ in rest:
            pass
        raise
    for aside in asides:
        aside.result()
    return [found[number] for number in range(len(jobs))]
