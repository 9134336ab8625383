"""Opens files, locks them, and checks paths.

Only regular files are opened, so that opening never waits. Waiting for a lock has a time-out.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import math
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

GZIP = b"\x1f\x8b"  # What compressed files begin with.
NOT_REGULAR = "it is a device or a pipe, and no regular file"


def path_fault(path: str | os.PathLike[str]) -> str:
    """Return why there can be no file or folder at a path, in words; "" if there can be one."""
    try:
        os.stat(path)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return str(error.strerror)
    except ValueError:  # a null, or half of a character
        return "it has a character that no name of a file has"
    return ""


def open_regular(path: str | os.PathLike[str], flags: int) -> int:
    """Open a regular file and return its descriptor, which child processes do not inherit.

    A pipe or a device is refused, because opening it could wait forever.

    `flags`: as of `os.open`; a file that `os.O_CREAT` makes has the mode 0o644.

    Raises OSError if it cannot be opened, or is not a regular file.
    """
    try:
        fd = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY, 0o644)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket
            raise OSError(error.errno, NOT_REGULAR, str(path)) from error
        raise
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISDIR(mode):
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, NOT_REGULAR, str(path))
    except BaseException:
        os.close(fd)
        raise
    return fd


def open_to_read(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file for reading bytes; see `open_regular`."""
    return os.fdopen(open_regular(Path(path), os.O_RDONLY), "rb")


def leads_to(path: str | os.PathLike[str], fd: int) -> bool:
    """Whether a path still leads to an open file, which may have been replaced or removed."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


def lines_until(file: BinaryIO, end: int, whole: int) -> Iterator[bytes]:
    """Yield the lines of the first `end` bytes of a file.

    `whole`: how many of these bytes were of whole lines; a writer may remove the rest.

    Raises OSError if it has been cut to fewer meanwhile.
    """
    read = 0
    while line := file.readline(end - read):
        yield line
        read += len(line)
    if read < whole:
        raise OSError(errno.ESTALE, "it was cut while it was read: try again", file.name)


def sync_folder(folder: Path) -> None:
    """Force the names of the files in a folder to disk."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextlib.contextmanager
def replacing(path: Path, like: os.stat_result | None = None) -> Iterator[Path]:
    """Give the path of an empty file beside `path`, which it replaces once all is written.

    If the block fails, what is at `path` stays as it is.

    `like`: give it the mode and, if that is allowed, the owner of this file.
    """
    suffix = "".join(path.suffixes[-1:])
    stem = path.stem[:100]  # leaves room for more in the longest names
    handle, name = tempfile.mkstemp(suffix=suffix, prefix=f".{stem}.", dir=path.parent)
    os.close(handle)
    partial = Path(name)
    try:
        yield partial
        if like is None:
            umask = os.umask(0)
            os.umask(umask)
            partial.chmod(0o666 & ~umask)
        else:
            with contextlib.suppress(PermissionError):
                os.chown(partial, like.st_uid, like.st_gid)
            partial.chmod(like.st_mode & 0o7777)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


# Seconds after which waiting is mentioned: appending a record takes some milliseconds.
SAID_AFTER_S = 1.0

READING_WAITS_S = 10.0  # Seconds that readers wait.
_SHORTEST_S, _LONGEST_S = 0.0005, 0.05  # Seconds between two tries, at first and later on.


class LockedError(OSError):
    """Another process has held the lock of a file until the time-out."""


def lock_file(fd: int, kind: int, wait_s: float, notify: Callable[[str], object]) -> None:
    """Lock an open file as a whole (`flock`).

    `kind`: `fcntl.LOCK_SH` or `fcntl.LOCK_EX`.
    `wait_s`: seconds to wait for others, at most; may be infinite.
    `notify`: called once, after `SAID_AFTER_S`, with a message about the process that holds the
    lock.

    Raises LockedError if another process still has it then.
    """
    begin, pause, told = time.monotonic(), _SHORTEST_S, False
    while True:
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
        except BlockingIOError as error:
            waited = time.monotonic() - begin
            if waited >= wait_s:
                raise LockedError(error.errno, f"{holder_of(fd)} has locked it") from error
            if waited >= SAID_AFTER_S and not told:
                told = True
                limit = "" if math.isinf(wait_s) else f", for {wait_s:.0f} s at most"
                notify(f"{holder_of(fd)} has locked it: waiting until it is free{limit}")
            time.sleep(max(0.0, min(pause, wait_s - waited)))
            pause = min(2.0 * pause, _LONGEST_S)
        else:
            return


def holder_of(fd: int) -> str:
    """Return the process that has locked an open file, if known: "process 4711 (flock)"."""
    try:
        status = os.fstat(fd)
        with open("/proc/locks", encoding="ascii", errors="replace") as lines:
            locks = [line.split() for line in lines if "->" not in line.split()[1:2]]
    except OSError:
        return "another process"
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
    # 1: FLOCK  ADVISORY  WRITE 4711 fd:01:5678 0 EOF
    flocks = [words for words in locks if len(words) > 5 and words[1] == "FLOCK"]
    of_inode = [words for words in flocks if words[5].rpartition(":")[2] == str(status.st_ino)]
    # The device of a file in layers is another one than that of its lock.
    found = [words for words in of_inode if words[5].startswith(f"{device}:")] or of_inode
    return _named(int(found[0][4])) if found else "another process"


def _named(number: int) -> str:
    """Return a process by its number and, if it can be seen from here, its name."""
    if number <= 0:  # in another container
        return "another process"
    try:
        with open(f"/proc/{number}/comm", encoding="utf-8", errors="replace") as file:
            return f"process {number} ({file.read().strip()})"
    except OSError:
        return f"process {number}"
