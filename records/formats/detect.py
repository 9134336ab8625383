"""Reads a file of measurements of any known format, compressed or not; the content decides."""

from __future__ import annotations

import contextlib
import gzip
import io
import itertools
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from records.append_only_log import RecordStore
from records.files import open_to_read
from records.formats import autotvm, kernel_tuner, t4
from records.record import Record
from records.record_errors import RecordError

# What can be read, for messages.
FORMATS = ("autotune records", "AutoTVM logs", "Kernel Tuner caches", "T4 results")

_GZIP = b"\x1f\x8b"
_MAX_DAMAGED = 64


def read_any(path: str | Path) -> list[Record]:
    """Read the measurements that a file holds.

    `path`: our own log, an AutoTVM log (v0.1, v0.2), a Kernel Tuner cache or T4 results; gzip is
    undone.

    Raises RecordError if the file cannot be read or is none of these.
    """
    return parse_any(_content(Path(path)), str(path))


@contextlib.contextmanager
def _opened(path: str | Path) -> Iterator[tuple[BinaryIO, bool]]:
    """Open a file, with gzip undone, and tell whether there was any."""
    with open_to_read(path) as file:
        packed = file.read(2) == _GZIP
        file.seek(0)
        if packed:
            with gzip.open(file) as lines:
                yield cast(BinaryIO, lines), True
        else:
            yield file, False


def _content(path: Path) -> bytes:
    """Return what a file holds, with gzip undone; RecordError if it cannot be read."""
    try:
        with _opened(path) as (file, _):
            return file.read()
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> RecordError:
    return RecordError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}")


def stream_any(path: str | Path) -> Iterator[Record]:
    """Yield the measurements that a file holds; of our own logs few are in memory at a time.

    An empty file holds none. Otherwise as `read_any`.
    """
    path = Path(path)
    try:
        with _opened(path) as (lines, packed):
            empty = not packed and os.fstat(lines.fileno()).st_size == 0
            kind = _kind_of_lines(lines)
            if kind == "autotune" and packed:
                lines.seek(0)
                yield from RecordStore(path).parse_in_blocks(lines)
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(path, error) from error
    if kind == "autotune" and not packed:
        yield from RecordStore(path).stream()
    elif kind != "autotune" and not empty:
        yield from read_any(path)


def foreign_format(path: str | Path) -> str | None:
    """Return what a file is that only `read_any` can read, such as "T4 results".

    None if it is a log of ours, or nothing of the kind.
    """
    try:
        with _opened(path) as (lines, packed):
            kind = _kind_of_lines(lines)
        if kind is not None:
            return "an AutoTVM log" if kind == "autotvm" else "a compressed log" if packed else None
        document = kernel_tuner.parse_json(_content(Path(path)).decode())
    except (OSError, EOFError, zlib.error, RecordError, UnicodeDecodeError):
        return None
    if not isinstance(document, dict):
        return None
    names = {"cache": "a Kernel Tuner cache", "results": "T4 results"}
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
            f"{store.path} is {kind}, which this cannot use: `autotune records summary`, `features "
            "export` and `replay run` read it, and `run` can learn from it"
        ) from error


def parse_any(data: bytes, name: str) -> list[Record]:
    """Return the measurements in the content of a file; `name` is for messages.

    Raises RecordError if it is of no known format.
    """
    kind = _kind_of_lines(io.BytesIO(data))
    if kind == "autotune":
        return RecordStore(name).parse(io.BytesIO(data))
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RecordError(f"{name} is not text: {_expected()}") from error
    if kind == "autotvm":
        return autotvm.parse(text, name)
    document = kernel_tuner.parse_json(text)
    if isinstance(document, dict) and "cache" in document:
        return kernel_tuner.records_of(document, name)
    if isinstance(document, dict) and "results" in document:
        return t4.records_of(document, name)
    raise RecordError(f"{name} is of no known format: {_expected()}")


def _kind_of_lines(lines: Iterable[bytes]) -> str | None:
    """Return which of the formats with a measurement per line this is; None if neither.

    The first line that can be read decides; a few before it may be damaged.
    """
    for line in itertools.islice(lines, _MAX_DAMAGED):
        if line.isspace() or line.startswith(b"#"):
            continue
        try:
            first: Any = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(first, dict) and "schema" in first:
            return "autotune"
        return "autotvm" if autotvm.is_entry(first) else None
    return None


def _expected() -> str:
    return f"expected {', '.join(FORMATS[:-1])} or {FORMATS[-1]}"
