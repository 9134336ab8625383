"""Finds what a run leaves behind: processes with a mark in their environment, files, shared memory.

A process that leaves its session, its group and its parent keeps its environment.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from autotune.system.available_cpus import quota_cpus

MARK = "AUTOTUNE_TEST_TOKEN"
GRACE_S = 5.0


def new_token() -> str:
    """Return a mark for the environment of one process tree."""
    return uuid.uuid4().hex


def patience(seconds: float) -> float:
    """Return seconds as they pass on this machine: longer where more wants to run than can."""
    return seconds * max(1.0, os.getloadavg()[0] / _cpus())


def _cpus() -> int:
    """Return how many CPUs are truly here, whatever machine is pretended."""
    cpus = len(os.sched_getaffinity(0))
    return min(cpus, quota_cpus("/sys/fs/cgroup") or cpus)


def wait_for(condition: Callable[[], object], seconds: float = 60.0, what: str = "it") -> None:
    """Return once something holds; AssertionError if it does not in time."""
    end = time.monotonic() + patience(seconds)
    while not condition():
        assert time.monotonic() < end, f"{what} did not happen within {seconds:g} s"
        time.sleep(0.02)


def alive(process: psutil.Process) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def marked(token: str) -> list[psutil.Process]:
    """Return all living processes with this mark, other than this one; zombies live no more."""
    entry = f"{MARK}={token}".encode()
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError, psutil.NoSuchProcess):
                if entry in Path("/proc", name, "environ").read_bytes().split(b"\0"):
                    found.append(psutil.Process(int(name)))
    return found


def describe(processes: list[psutil.Process]) -> list[str]:
    """Return processes as texts for a message."""
    texts = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            words = " ".join(process.cmdline())[:120]
            texts.append(f"{process.pid} (of {process.ppid()}, {process.status()}): {words}")
    return texts


def assert_no_orphans(token: str, seconds: float = GRACE_S) -> None:
    """Fail if processes with this mark outlive the grace period."""
    end = time.monotonic() + patience(seconds)
    while left := marked(token):
        assert time.monotonic() < end, f"after {seconds:g} s there are {describe(left)}"
        time.sleep(0.02)


@dataclass
class Watch:
    """What was seen of a process and all that carry its mark, while they ran.

    Attributes
    ----------
    rss : list of (float, int)
        Resident bytes of the process over time in seconds.
    fds : list of (float, int)
        Its open files.
    most : int
        The largest number of processes at a time.
    largest : int
        The largest resident size in bytes of any but the process itself.
    zombies : dict of int to (float, float)
        When each child of the process was seen first and last as a zombie.
    pids : set of (int, float)
        Id and time of creation of all processes that carried the mark.
    shared : set of str
        Files of shared memory that they used.
    """

    rss: list[tuple[float, int]] = field(default_factory=list)
    fds: list[tuple[float, int]] = field(default_factory=list)
    most: int = 0
    largest: int = 0
    zombies: dict[int, tuple[float, float]] = field(default_factory=dict)
    pids: set[tuple[int, float]] = field(default_factory=set)
    shared: set[str] = field(default_factory=set)

    def look(self, process: psutil.Process, token: str, since: float) -> None:
        """Take a sample."""
        with process.oneshot():
            self.rss.append((since, process.memory_info().rss))
            self.fds.append((since, process.num_fds()))
        others = [other for other in marked(token) if other.pid != process.pid]
        self.most = max(self.most, len(others))
        for other in others:
            with contextlib.suppress(psutil.NoSuchProcess):
                self.largest = max(self.largest, other.memory_info().rss)
                self.pids.add((other.pid, other.create_time()))
        for user in (process, *others):
            self.shared |= shared_memory_of(user.pid)
        for child in process.children():
            with contextlib.suppress(psutil.NoSuchProcess):
                if child.status() == psutil.STATUS_ZOMBIE:
                    first, _ = self.zombies.get(child.pid, (since, since))
                    self.zombies[child.pid] = first, since

    def left(self) -> list[psutil.Process]:
        """Return those processes that still exist, be it as zombies."""
        found = []
        for pid, created in self.pids:
            with contextlib.suppress(psutil.NoSuchProcess):
                process = psutil.Process(pid)
                if process.create_time() == created:
                    found.append(process)
        return found


@contextlib.contextmanager
def watching(pid: int, token: str, every_s: float = 0.1) -> Iterator[Watch]:
    """Watch a process and what it started from another thread, until the block or it ends."""
    watch, done, begin = Watch(), threading.Event(), time.monotonic()
    process = psutil.Process(pid)

    def look() -> None:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            while not done.wait(every_s):
                watch.look(process, token, time.monotonic() - begin)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        done.set()
        thread.join()


def shared_memory_of(pid: int) -> set[str]:
    """Return the files of shared memory and semaphores that a process has mapped."""
    try:
        maps = Path("/proc", str(pid), "maps").read_text()
    except OSError:  # it has ended
        return set()
    return {line[line.index("/dev/shm/") :] for line in maps.splitlines() if "/dev/shm/" in line}


def environment(token: str, folder: Path, **more: str) -> dict[str, Any]:
    """Return an environment with the mark, in which caches and temporary files go to `folder`."""
    root = Path(__file__).parents[2]
    temporary = folder / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    paths = [str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "TMPDIR": str(temporary),
        "AUTOTUNE_CACHE_DIR": str(folder / "cache"),
        MARK: token,
        **more,
    }
