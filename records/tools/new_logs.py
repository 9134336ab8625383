"""Writes logs that appear under their names when they are complete, and rewrites logs in place."""

from __future__ import annotations

import contextlib
import gzip
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

from records.append_only_log import RecordStore
from records.files import sync_folder
from records.record_errors import RecordError
from records.tools.log_lines import GZIP, LogLine, lines_in

_PARTIAL = ".partial"  # Suffix of what is not complete; in a folder of logs it is none.

# Yields all lines of some logs, each time it is called.
Lines = Callable[[], Iterable[LogLine]]


@contextlib.contextmanager
def new_log(path: Path, replace: bool = False) -> Iterator[BinaryIO]:
    """Open a log for writing, which appears at `path` when all is written and on the disk.

    It is compressed if the name ends in ``.gz``.

    `replace`: whether it may take the place of a file.

    RecordError if it cannot be written, or there is such a file already.
    """
    try:
        with _complete_or_nothing(path, path.name.endswith(".gz")) as (lines, partial):
            yield lines
            if not replace and os.path.lexists(path):
                raise RecordError(f"{path} is there already: choose another name")
            partial.chmod(0o666 & ~_umask())
    except OSError as error:
        raise RecordError(f"cannot write {path}: {error.strerror or error}") from error


def rewrite(path: Path, choose: Callable[[Lines], Iterable[LogLine]]) -> None:
    """Replace a log by some of its lines.

    Meanwhile it is locked: what others append waits, and then goes into the new log. A crash leaves
    the old log or the new one.

    `choose`: is given the lines of the log, and yields those that stay.

    RecordError if the log cannot be read or written, or is missing.
    """
    path = Path(os.path.realpath(path))  # what a link leads to is replaced, not the link

    def replace(fd: int) -> None:
        status = os.fstat(fd)
        with (
            open(fd, "rb", closefd=False) as log,
            _complete_or_nothing(path, os.pread(fd, len(GZIP), 0) == GZIP) as (new, partial),
        ):
            write_lines(new, choose(lambda: lines_in(path, log, status.st_size)))
            partial.chmod(status.st_mode & 0o7777)
            with contextlib.suppress(PermissionError):  # only root gives files away
                os.chown(partial, status.st_uid, status.st_gid)

    RecordStore(path).replacing(replace)


def write_lines(file: BinaryIO, lines: Iterable[LogLine]) -> None:
    """Write lines of logs."""
    for line in lines:
        file.write(line.data + b"\n")


@contextlib.contextmanager
def _complete_or_nothing(path: Path, packed: bool) -> Iterator[tuple[BinaryIO, Path]]:
    """Open a file beside `path` for writing; it is renamed at the end, or removed by an error."""
    handle, name = tempfile.mkstemp(_PARTIAL, f".{path.name[:100]}.", path.parent)
    partial = Path(name)
    try:
        with open(handle, "wb") as file:
            if packed:
                with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as lines:
                    yield cast(BinaryIO, lines), partial
            else:
                yield file, partial
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        sync_folder(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask
