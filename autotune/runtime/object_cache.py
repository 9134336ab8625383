"""Compiled objects by a hash of all that went into them, in memory and on disk.

Processes share the folder: a file is written under another name and then renamed, and carries a
digest, so a reader sees all of it, nothing, or something it can tell is damaged. What is read is
executed: it must be this user's (or the system's) own, and nobody else may be able to write it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import os
import re
import stat
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from autotune.system.environment_variables import CACHE_VARIABLE, cache_folder

DISK_BYTES = 512 * 2**20  # What the folder may hold before the oldest objects go.

_log = logging.getLogger(__name__)

_DIGEST_BYTES = 32
_KEY = re.compile(r"[0-9a-f]{64}")
_UNFINISHED = ".object-"
# Age from which a file that was never renamed belongs to a process that was killed.
_ABANDONED_S = 3600.0


def object_folder() -> Path:
    """Folder of the objects, in the user's cache folder."""
    return cache_folder() / "objects"


def cache_key(*parts: str) -> str:
    """Hash of everything an object depends on."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


class ObjectCache:
    """Objects in memory (least recently used ones go) and in a folder (the oldest ones go).

    `folder`: where objects persist; None for memory only.
    `memory_bytes`, `disk_bytes`: what may be kept.
    """

    def __init__(
        self,
        folder: Path | None,
        memory_bytes: int = 64 * 2**20,
        disk_bytes: int = DISK_BYTES,
    ) -> None:
        self.folder = folder
        self.memory_bytes = memory_bytes
        self.disk_bytes = disk_bytes
        self._memory: OrderedDict[str, bytes] = OrderedDict()
        self._used = 0
        self._pruned = False
        self._lock = threading.Lock()

    def get(self, key: str, accept: Callable[[bytes], bool] = lambda data: True) -> bytes | None:
        """Object stored under `key`, or None.

        `accept`: whether the content of a file is such an object.
        """
        with self._lock:
            found = self._memory.get(key)
            if found is not None:
                self._memory.move_to_end(key)
                return found
        found = self._read(key)
        if found is None or not accept(found):
            return None
        self._keep(key, found)
        return found

    def put(self, key: str, data: bytes) -> None:
        """Store an object; a folder that cannot be written is no error, but logged."""
        self._keep(key, data)
        if self.folder is None:
            return
        try:
            self._write(self.folder, key, data)
        except OSError as error:
            self._give_up(f"cannot be written ({error.strerror})")

    def check_folder(self) -> None:
        """Log a warning, and use the folder no more, if others could have put code into it."""
        if self.folder is not None:
            with contextlib.suppress(OSError):
                self._trusts(os.stat(self.folder))

    def _trusts(self, state: os.stat_result) -> bool:
        problem = _distrust(state)
        if problem:
            remedy = f"`chmod go-w {self.folder}`" if "mode" in problem else "delete it"
            self._give_up(f"{problem}; {remedy}, or name another by {CACHE_VARIABLE}")
        return not problem

    def _give_up(self, why: str) -> None:
        """Use the folder no more: it is read-only or full, or others may write it."""
        folder, self.folder = self.folder, None
        _log.warning("compiled code is kept in memory only: the cache folder %s %s", folder, why)

    def _keep(self, key: str, data: bytes) -> None:
        with self._lock:
            old = self._memory.pop(key, b"")
            self._memory[key] = data
            self._used += len(data) - len(old)
            while self._used > self.memory_bytes:
                _, dropped = self._memory.popitem(last=False)
                self._used -= len(dropped)

    def _read(self, key: str) -> bytes | None:
        folder = self.folder
        if folder is None:
            return None
        try:
            place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            if not self._trusts(os.fstat(place)):
                return None
            stored = _trusted_bytes(folder / key, place)
        except OSError:
            return None
        finally:
            os.close(place)
        digest, data = stored[:_DIGEST_BYTES], stored[_DIGEST_BYTES:]
        return data if _digest(key, data) == digest else None

    def _write(self, folder: Path, key: str, data: bytes) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not self._trusts(os.stat(folder)):
            return
        if not self._pruned:
            self._pruned = True
            prune(folder, self.disk_bytes)
        handle, name = tempfile.mkstemp(dir=folder, prefix=_UNFINISHED)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_digest(key, data) + data)
            os.replace(name, folder / key)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def _digest(key: str, data: bytes) -> bytes:
    """Return the header of a file, which shows damage, and objects of another key."""
    return hashlib.sha256(key.encode() + data).digest()


def _distrust(state: os.stat_result) -> str:
    """Return why code from a folder or a file must not be executed; empty if it may be."""
    if state.st_uid not in (os.geteuid(), 0):
        return f"belongs to another user (number {state.st_uid})"
    if state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"may be written by other users (mode {stat.S_IMODE(state.st_mode):o})"
    return ""


def _trusted_bytes(path: Path, place: int) -> bytes:
    """Return the content of a file in an open folder; OSError unless the file is ours."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # a pipe is not waited for
    with os.fdopen(os.open(path.name, flags, dir_fd=place), "rb") as file:
        state = os.fstat(file.fileno())
        if not stat.S_ISREG(state.st_mode):
            raise OSError(f"{path} is not a regular file")
        problem = _distrust(state)
        if problem:
            _log.warning("the cached object %s %s: it is compiled anew", path, problem)
            raise OSError(problem)
        return file.read()


@functools.cache
def default_cache() -> ObjectCache:
    """Return the process's object cache: in memory, and in the user's cache folder."""
    return ObjectCache(object_folder())


# -- the folder, which other processes use at the same time ------------------------------------


class _File(NamedTuple):
    """A file of the cache, in the order of age."""

    modified_s: float
    bytes: int
    path: str
    whole: bool


@dataclass(frozen=True)
class CacheUse:
    """The number and size of objects in a folder, or of objects deleted from it."""

    #: Compiled objects.
    entries: int
    #: Their size, including files that killed processes left behind.
    bytes: int
    #: When the first and the last of them were written, Unix seconds; None without any.
    oldest_s: float | None
    newest_s: float | None

    @classmethod
    def _of(cls, files: list[_File]) -> CacheUse:
        times = [file.modified_s for file in files if file.whole]
        return cls(
            len(times),
            sum(file.bytes for file in files),
            min(times, default=None),
            max(times, default=None),
        )


def use_of(folder: Path) -> CacheUse:
    """Return the number and size of the objects in a folder; 0 if it is missing.

    Raises OSError if it cannot be read.
    """
    return CacheUse._of(list(_files(folder)))


def clear(folder: Path) -> CacheUse:
    """Delete all objects of a folder, and nothing else there; return their number and size.

    A process that uses them loses nothing: it has read an object whole, or compiles it again.

    Raises OSError if the folder cannot be read, or a file cannot be deleted.
    """
    return CacheUse._of([file for file in _files(folder) if _delete(file)])


def prune(folder: Path, disk_bytes: int) -> None:
    """Delete the oldest objects until half of `disk_bytes` is left, if more is there."""
    files = sorted(_files(folder))
    total = sum(file.bytes for file in files)
    goal = total if total <= disk_bytes else disk_bytes // 2
    for file in files:
        if not file.whole or total > goal:
            total -= file.bytes
            _delete(file)


def _files(folder: Path) -> Iterator[_File]:
    """Yield the objects of a folder, and unfinished files of killed processes."""
    try:
        entries = list(os.scandir(folder))
    except FileNotFoundError:
        return
    for entry in entries:
        whole = _KEY.fullmatch(entry.name) is not None
        if not whole and not entry.name.startswith(_UNFINISHED):
            continue
        try:
            state = entry.stat(follow_symlinks=False)
        except FileNotFoundError:  # another process was faster
            continue
        if whole or time.time() - state.st_mtime > _ABANDONED_S:
            yield _File(state.st_mtime, state.st_size, entry.path, whole)


def _delete(file: _File) -> bool:
    """Delete a file; False if another process was faster."""
    try:
        os.unlink(file.path)
    except FileNotFoundError:
        return False
    return True
