"""Writes logs that appear under their names when they are complete, and rewrites logs in place."""

from __future__ import annotations

import contextlib
import errno
import gzip
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

from records.record_errors import RecordError
from records.storage.append_only_log import RecordStore
from records.storage.files import GZIP, replacing, sync_folder
from records.tools.log_lines import LogLine, extent_of, lines_in

# Yields all lines of some logs, each time it is called.
Lines = Callable[[], Iterable[LogLine]]

Chosen = TypeVar("Chosen", bound=Iterable[LogLine])


@contextlib.contextmanager
def new_log(path: Path, replace: bool = False) -> Iterator[BinaryIO]:
    """Open a log for writing, which appears at `path` when all is written and on the disk.

    It is compressed if the name ends in ``.gz``.

    `replace`: whether it may take the place of a file.

    RecordError if it cannot be written, or there is such a file already.
    """
    path = Path(os.path.realpath(path))
    try:
        with replacing(path) as partial:
            with _written(partial, packed=path.name.endswith(".gz")) as lines:
                yield lines
            if not replace and path.exists():
                raise RecordError(f"{path} is there already: choose another name")
        sync_folder(path.parent)
    except OSError as error:
        raise RecordError(f"cannot write {path}: {error.strerror or error}") from error


def rewrite(path: Path, choose: Callable[[Lines], Chosen]) -> Chosen:
    """Replace a log by some of its lines; return what `choose` has returned.

    Meanwhile it is locked: what others append waits, and then goes into the new log. If it is
    changed without the lock, it stays as it is then. A crash leaves the old log or the new one.

    `choose`: is given the lines of the log, and returns those that stay.

    RecordError if the log cannot be read or written, is missing, or is changed meanwhile.
    """
    path = Path(os.path.realpath(path))  # what a link leads to is replaced, not the link
    chosen: list[Chosen] = []

    def replace(fd: int) -> None:
        status, whole = extent_of(fd)
        packed = os.pread(fd, len(GZIP), 0) == GZIP
        with (
            open(fd, "rb", closefd=False) as log,
            replacing(path, like=status) as partial,
            _written(partial, packed) as new,
        ):
            chosen.append(choose(lambda: lines_in(path, log, status.st_size, whole)))
            write_lines(new, chosen[0])
            _check_unchanged(path, status)
        sync_folder(path.parent)

    RecordStore(path).replacing(replace)
    return chosen[0]


def _check_unchanged(path: Path, before: os.stat_result) -> None:
    now = os.stat(path)
    same = os.path.samestat(now, before) and now.st_size == before.st_size
    if not same or now.st_mtime_ns != before.st_mtime_ns:
        raise OSError(errno.ESTALE, "it was changed meanwhile: try again", str(path))


def write_lines(file: BinaryIO, lines: Iterable[LogLine]) -> None:
    """Write lines of logs."""
    for line in lines:
        file.write(line.data + b"\n")


@contextlib.contextmanager
def _written(path: Path, packed: bool) -> Iterator[BinaryIO]:
    """Open a file for writing; at the end all of it is on the disk."""
    with path.open("wb") as file:
        if packed:  # without a time, so that the same records make the same bytes
            with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as lines:
                yield cast(BinaryIO, lines)
        else:
            yield file
        file.flush()
        os.fsync(file.fileno())
