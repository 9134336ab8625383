"""Opens only regular files, so that opening never waits."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

NOT_REGULAR = "it is a device or a pipe, and no regular file"


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
