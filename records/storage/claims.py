"""Claims of candidates that a run measures: locks on bytes of the log, which end with the process.

Nothing is written: the bytes are beyond any log's end. An open file holds a claim, not a process
(an "open file description" lock of Linux), so that runs within one process exclude each other, too.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import logging
import os
import struct
import tempfile
from pathlib import Path

from records.storage.files import leads_to, open_regular

_log = logging.getLogger(__name__)

_FIRST = 1 << 62  # Offset of the lockable bytes; the greatest offset is 2^63 - 1.
_TO_THE_END = 0  # As a length: all bytes from the offset on.

_TAKEN = (errno.EAGAIN, errno.EACCES)


class Claims:
    """Claims of one run on the entries of the log at `path`.

    If they would interfere on this file system with the locks for appending (as on NFS), or if that
    cannot be tried (in a read-only folder), nothing is locked and every claim is granted.

    `path`: the log; it is created if needed, and then removed at the end if it is still empty.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None
        self._made = False
        self._held: set[int] = set()
        self._lockable: bool | None = None

    def take(self, name: str) -> bool:
        """Return whether the entry of this name is ours now; OSError if the log cannot be opened.

        A claim that is held already is granted again.
        """
        if self._lockable is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._lockable = _keeps_locks_apart(self._path.parent)
            if not self._lockable:
                _log.info("%s: this folder or its file system has no locks for claims", self._path)
        if not self._lockable:
            return True
        fd = self._open()
        offset = _offset(name)
        if offset not in self._held:
            if not _lock(fd, fcntl.F_WRLCK, offset):
                return False
            self._held.add(offset)
        return True

    def _open(self) -> int:
        """Return the open log; if it was replaced meanwhile, the new one."""
        if self._fd is not None and leads_to(self._path, self._fd):
            return self._fd
        self.close()
        flags = os.O_RDWR | os.O_CREAT
        try:
            self._fd = open_regular(self._path, flags | os.O_EXCL)
            self._made = True
        except FileExistsError:
            self._fd = open_regular(self._path, flags)
            self._made = False
        return self._fd

    def release(self, name: str) -> None:
        """Release an entry, if this run holds it."""
        offset = _offset(name)
        if self._fd is not None and offset in self._held:
            self._held.remove(offset)
            _lock(self._fd, fcntl.F_UNLCK, offset)

    def close(self) -> None:
        """Release all entries, and remove a log that was created here and is still empty."""
        if self._fd is None:
            return
        fd, self._fd = self._fd, None
        self._held.clear()
        try:
            if self._made and os.fstat(fd).st_size == 0:
                self._remove(fd)
        finally:
            os.close(fd)

    def _remove(self, fd: int) -> None:
        """Remove the empty log, unless another process uses it."""
        with contextlib.suppress(BlockingIOError, FileNotFoundError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            unused = _lock(fd, fcntl.F_WRLCK, _FIRST, length=_TO_THE_END)
            if unused and os.fstat(fd).st_size == 0 and leads_to(self._path, fd):
                os.unlink(self._path)


def _offset(name: str) -> int:
    """Return the offset of a name's byte: 60 bits of its digest, so that none collide."""
    return _FIRST + (int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) >> 4)


def _lock(fd: int, kind: int, offset: int, length: int = 1) -> bool:
    """Lock (F_WRLCK) or unlock (F_UNLCK) bytes; return whether no other file holds one."""
    # struct flock: type, whence, start, length, process (0, as the lock is not a process's).
    request = struct.pack("hhqqi0q", kind, os.SEEK_SET, offset, length, 0)
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, request)
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        raise
    return True


def _keeps_locks_apart(folder: Path) -> bool:
    """Whether byte locks exist on this file system and leave locks on whole files alone.

    This is tried with another file; without it, as in a read-only folder, nobody knows.
    """
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            _lock(file.fileno(), fcntl.F_WRLCK, _FIRST)
            with open(f"/proc/self/fd/{file.fileno()}", "rb+") as other:
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
