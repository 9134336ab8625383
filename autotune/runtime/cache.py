"""Compiled objects by a hash of all that went into them, in memory and on disk.

Processes share the folder: a file is written under another name and then renamed, and carries a
digest, so a reader sees all of it, nothing, or something it can tell is damaged.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
from collections import OrderedDict
from pathlib import Path

_DIGEST_BYTES = 32


def cache_folder() -> Path:
    """Folder of the objects: AUTOTUNE_CACHE_DIR, else the user's cache folder."""
    chosen = os.environ.get("AUTOTUNE_CACHE_DIR")
    if chosen:
        return Path(chosen) / "objects"
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("autotune")) / "objects"


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
        disk_bytes: int = 512 * 2**20,
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
        """Store an object; a folder that cannot be written is no error."""
        self._keep(key, data)
        if self.folder is None:
            return
        try:
            self._write(self.folder, key, data)
        except OSError:
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
            self._prune(folder)
        handle, name = tempfile.mkstemp(dir=folder, prefix=".")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(data).digest() + data)
            os.replace(name, folder / key)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def _prune(self, folder: Path) -> None:
        """Delete the oldest objects until half of what is allowed is left, if too much is there."""
        files = []
        for entry in os.scandir(folder):
            try:
                state = entry.stat()
            except FileNotFoundError:  # another process was faster
                continue
            files.append((state.st_mtime, state.st_size, entry.path))
        total = sum(size for _, size, _ in files)
        if total <= self.disk_bytes:
            return
        for _, size, path in sorted(files):
            if total <= self.disk_bytes // 2:
                break
            Path(path).unlink(missing_ok=True)
            total -= size
