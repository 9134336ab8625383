"""Reads a file of measurements of any known format, compressed or not; the content decides."""

from __future__ import annotations

import contextlib
import gzip
import io
import itertools
import os
import re
import zlib
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO, cast

from records.formats import autotvm, kernel_tuner, metaschedule, t4
from records.json_lines import parse_json, parse_plain
from records.record import SCHEMA, Record
from records.record_errors import NewerSchemaError, RecordError
from records.storage.append_only_log import RecordStore
from records.storage.files import GZIP, open_to_read

# What can be read, for messages.
FORMATS = (
    "autotune records",
    "AutoTVM logs",
    "MetaSchedule databases",
    "Kernel Tuner caches",
    "T4 results",
)

MAX_LINE = 1 << 26  # Bytes of a line; a longer one is cut.
MAX_DOCUMENT = 1 << 29  # Bytes of a file that is one JSON document, uncompressed.

_OTHER_SCHEMA = re.compile(rb'\{"schema":(?! ?%d\D)' % SCHEMA)  # The beginning of such a line.

_MAX_DAMAGED = 64
_REPLACED = "\ufffd"  # in place of bytes that are no UTF-8


class FileFormat(StrEnum):
    """What a file of measurements is; as a text it is what messages call the file."""

    OWN = "a log of records"
    COMPRESSED = "a compressed log"
    AUTOTVM = "an AutoTVM log"
    METASCHEDULE = "a MetaSchedule database"
    KERNEL_TUNER = "a Kernel Tuner cache"
    T4 = "T4 results"


def read_any(path: str | Path) -> list[Record]:
    """Read the measurements that a file holds.

    `path`: our own log, an AutoTVM log (v0.1, v0.2), a MetaSchedule database (its folder, or one of
    its two files), a Kernel Tuner cache or T4 results; gzip is undone.

    What is no measurement is passed over with a `RecordWarning`.

    Raises RecordError if the file cannot be read, is none of these, or holds no measurement.
    """
    return list(_measurements(Path(path)))


def stream_any(path: str | Path) -> Iterator[Record]:
    """Yield the measurements that a file holds; of a log few are in memory at a time.

    An empty file holds none. Otherwise as `read_any`.
    """
    return _measurements(Path(path), may_be_empty=True)


def _measurements(path: Path, may_be_empty: bool = False) -> Iterator[Record]:
    with _told(path):
        if _is_database(path):
            yield from _of_database(path)
            return
        with _opened(path) as (file, packed):
            if may_be_empty and not packed and os.fstat(file.fileno()).st_size == 0:
                return
            kind = _kind_of_lines(file)
            file.seek(0)
            if kind == FileFormat.METASCHEDULE:
                yield from _of_database(path)
            elif kind != FileFormat.OWN or packed:
                yield from _of_file(file, kind, str(path))
        if kind == FileFormat.OWN and not packed:
            yield from RecordStore(path).stream()


def refuse_newer(path: str | Path) -> None:
    """Refuse a log in which a later version wrote a line; this takes far less time than reading it.

    Only the beginnings of lines are looked at. A line that is laid out in another way than ours is
    refused when it is read.

    Raises RecordError, which names the line, or if the file cannot be read.
    """
    path = Path(path)
    if _is_database(path):
        return
    with _told(path), _opened(path) as (file, _):
        for number, line in enumerate(_lines_of(file), 1):
            if _OTHER_SCHEMA.match(line) is None:
                continue
            try:
                Record.from_line(line)
            except NewerSchemaError as error:
                raise RecordError(f"{path}, line {number}: {error}") from error
            except (ValueError, RecursionError):
                continue


def foreign_format(path: str | Path) -> FileFormat | None:
    """Return what a file is that only `read_any` can read.

    None if it is a log of autotune, or of no known format. A compressed file that cannot be read
    counts as a compressed log, because reading it as a log gives the right error message.
    """
    path, packed = Path(path), False
    try:
        if _is_database(path):
            return FileFormat.METASCHEDULE
        with _opened(path) as (file, packed):
            kind = _kind_of_lines(file)
            if kind == FileFormat.OWN:
                return FileFormat.COMPRESSED if packed else None
            if kind is not None:
                return kind
            file.seek(0)
            document = kernel_tuner.parse_document(_text_of(file, str(path)))
    except (OSError, EOFError, zlib.error, RecordError):
        return FileFormat.COMPRESSED if packed else None
    if not isinstance(document, dict):
        return None
    names = {"cache": FileFormat.KERNEL_TUNER, "results": FileFormat.T4}
    return next((name for key, name in names.items() if key in document), None)


def load_own(store: RecordStore, must_exist: bool = False) -> list[Record]:
    """Return what `store.load` does; the error for a file of another tool says what it is."""
    try:
        return store.load(must_exist)
    except RecordError as error:
        kind = foreign_format(store.path)
        if kind is None:
            raise
        raise RecordError(
            f"{store.path} is {kind}, which this cannot use: `autotune records import` makes a log "
            "of it; `features export` and `replay run` read it, and `run` can learn from it"
        ) from error


def parse_any(data: bytes, name: str) -> list[Record]:
    """Return the measurements in the content of one file; `name` is for messages.

    Raises RecordError if it is of no known format, or holds no measurement.
    """
    kind = _kind_of_lines(io.BytesIO(data))
    if kind == FileFormat.METASCHEDULE:
        raise RecordError(f"{name} is one of the two files of {kind}: it takes both")
    return list(_of_file(io.BytesIO(data), kind, name))


def _of_file(file: BinaryIO, kind: FileFormat | None, name: str) -> Iterator[Record]:
    """Return the measurements in a file, of which `_kind_of_lines` said this."""
    if kind == FileFormat.OWN:
        return RecordStore(name).parse_each(_lines_of(file))
    if kind == FileFormat.AUTOTVM:
        return autotvm.records_of(_lines_of(file), name)
    text = _text_of(file, name)
    document = kernel_tuner.parse_document(text)
    if isinstance(document, dict) and "cache" in document:
        return kernel_tuner.records_of(document, name)
    if isinstance(document, dict) and "results" in document:
        return t4.records_of(document, name)
    what = "is not text" if _REPLACED in text else "is of no known format"
    raise RecordError(f"{name} {what}: expected {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")


def _is_database(path: Path) -> bool:
    """Whether a folder has a file of a MetaSchedule database."""
    return any((path / name).is_file() for name in (metaschedule.WORKLOADS, metaschedule.RECORDS))


def _of_database(path: Path) -> Iterator[Record]:
    workloads, records = metaschedule.files_of(path)
    with _told(workloads), _opened(workloads) as (file, _):
        modules = metaschedule.modules_of(_lines_of(file), str(workloads))
    with _told(records), _opened(records) as (file, _):
        yield from metaschedule.records_of(_lines_of(file), modules, str(records))


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    """Make a RecordError of what prevents reading a file."""
    try:
        yield
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or error
        raise RecordError(f"cannot read {path}: {why}") from error


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tuple[BinaryIO, bool]]:
    """Open a file, with gzip undone, and tell whether there was any."""
    with open_to_read(path) as file:
        packed = file.read(2) == GZIP
        file.seek(0)
        if packed:
            with gzip.open(file) as lines:
                yield cast(BinaryIO, lines), True
        else:
            yield file, False


def _lines_of(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a file; of one that is too long only the beginning."""
    while line := file.readline(MAX_LINE):
        yield line
        while len(line) == MAX_LINE and not line.endswith(b"\n"):
            line = file.readline(MAX_LINE)


def _text_of(file: BinaryIO, name: str) -> str:
    """Return the text of a file; what is not UTF-8 in it is replaced.

    Raises RecordError if it is too long.
    """
    data = file.read(MAX_DOCUMENT + 1)
    if len(data) > MAX_DOCUMENT:
        raise RecordError(f"{name} has more than {MAX_DOCUMENT >> 20} MiB of text: split it")
    return data.decode("utf-8-sig", "replace")


def _kind_of_lines(file: BinaryIO) -> FileFormat | None:
    """Return which of the formats with a measurement per line this is; None if none.

    The first line that can be read decides; a few before it may be damaged.
    """
    pickled = False
    for line in itertools.islice(_lines_of(file), _MAX_DAMAGED):
        if line.isspace() or line.startswith(b"#"):
            continue
        try:
            first: Any = parse_plain(line) or parse_json(line)
        except (ValueError, RecursionError):
            pickled = pickled or autotvm.is_pickled(line)
            continue
        if isinstance(first, dict) and "schema" in first:
            return FileFormat.OWN
        if metaschedule.is_record(first) or metaschedule.is_workload(first):
            return FileFormat.METASCHEDULE
        return FileFormat.AUTOTVM if autotvm.is_entry(first) else None
    return FileFormat.AUTOTVM if pickled else None
