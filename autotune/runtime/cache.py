"""Compiled objects by a hash of all that went into them, in memory and on disk.

Processes share the folder: a file is written under another name and then renamed, and carries a
digest, so a reader sees all of it, nothing, or something it can tell is damaged.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import re
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from autotune.folders import cache_folder

DISK_BYTES = 512 * 2**20
"""What the folder may hold before the oldest objects go."""

_log = logging.getLogger(__name__)

_DIGEST_BYTES = 32
_KEY = re.compile(r"[0-9a-f]{64}")
_UNFINISHED = ".object-"
_ABANDONED_S = 3600.0
"""Age from which a file that was never renamed belongs to a process that was killed."""


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

    Parameters
    ----------
    folder : Path or None
        Where objects persist; None for memory only.
    memory_bytes, disk_bytes : int
        What may be kept.
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

    def get(self, key: str) -> bytes | None:
        """Object stored under `key`, or None."""
        with self._lock:
            found = self._memory.get(key)
            if found is not None:
                self._memory.move_to_end(key)
                return found
        found = self._read(key)
        if found is not None:
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
            _log.warning(
                "the cache folder %s cannot be written (%s): compiled code is kept in memory only",
                self.folder,
                error.strerror,
            )
            self.folder = None  # read-only or full: memory only from here on

    def _keep(self, key: str, data: bytes) -> None:
        with self._lock:
            old = self._memory.pop(key, b"")
            self._memory[key] = data
            self._used += len(data) - len(old)
            while self._used > self.memory_bytes:
                _, dropped = self._memory.popitem(last=False)
                self._used -= len(dropped)

    def _read(self, key: str) -> bytes | None:
        if self.folder is None:
            return None
        try:
            stored = (self.folder / key).read_bytes()
        except OSError:
            return None
        digest, data = stored[:_DIGEST_BYTES], stored[_DIGEST_BYTES:]
        return data if hashlib.sha256(data).digest() == digest else None

    def _write(self, folder: Path, key: str, data: bytes) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not self._pruned:
            self._pruned = True
            prune(folder, self.disk_bytes)
        handle, name = tempfile.mkstemp(dir=folder, prefix=_UNFINISHED)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(data).digest() + data)
            os.replace(name, folder / key)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


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
    """What a folder of objects holds, or what was deleted of it.

    Attributes
    ----------
    entries : int
        Compiled objects.
    bytes : int
        Their size, and that of what killed processes left behind.
    oldest_s, newest_s : float or None
        When the first and the last of them were written, Unix seconds; None without any.
    """

    entries: int
    bytes: int
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
    """Return what a folder of objects holds; nothing if it is missing.

    Raises
    ------
    OSError
        If it cannot be read.
    """
    return CacheUse._of(list(_files(folder)))


def clear(folder: Path) -> CacheUse:
    """Delete all objects of a folder, and nothing else there; return what was deleted.

    A process that uses them loses nothing: it has read an object whole, or compiles it again.

    Raises
    ------
    OSError
        If the folder cannot be read, or a file cannot be deleted.
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
    """Yield the objects of a folder, and what killed processes never finished."""
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
