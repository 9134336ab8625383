"""Reads a file of measurements of any known format, compressed or not; the content decides."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from records.errors import RecordError
from records.formats import autotvm, kernel_tuner, t4
from records.record import Record
from records.store import RecordStore

FORMATS = ("autotune records", "AutoTVM logs", "Kernel Tuner caches", "T4 results")
"""What can be read, for messages."""

_GZIP = b"\x1f\x8b"
_MOST_DAMAGED = 64


def read_any(path: str | Path) -> list[Record]:
    """Read the measurements that a file holds.

    Parameters
    ----------
    path : str or path
        Our own log, an AutoTVM log (v0.1, v0.2), a Kernel Tuner cache or T4 results; gzip is
        undone.

    Raises
    ------
    RecordError
        If the file cannot be read or is none of these.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
        if data.startswith(_GZIP):
            data = gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(path, error) from error
    return parse_any(data, str(path))


def _unreadable(path: Path, error: Exception) -> RecordError:
    return RecordError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}")


def stream_any(path: str | Path) -> Iterator[Record]:
    """Yield the measurements that a file holds; of our own logs few are in memory at a time.

    An empty file holds none. Otherwise as `read_any`.
    """
    path = Path(path)
    try:
        with path.open("rb") as plain:
            packed = plain.read(2) == _GZIP
        with gzip.open(path) if packed else path.open("rb") as lines:
            kind = _kind_of_lines(lines)
        if kind == "autotune" and packed:
            with gzip.open(path) as lines:
                yield from RecordStore(path).parse_in_blocks(lines)
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(path, error) from error
    if kind == "autotune" and not packed:
        yield from RecordStore(path).stream()
    elif kind != "autotune" and path.stat().st_size:
        yield from read_any(path)


def parse_any(data: bytes, name: str) -> list[Record]:
    """Return the measurements in the content of a file; `name` is for messages.

    Raises
    ------
    RecordError
        If it is of no known format.
    """
    kind = _kind_of_lines(io.BytesIO(data))
    if kind == "autotune":
        return RecordStore(name).parse(io.BytesIO(data))
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RecordError(f"{name} is no text: {_expected()}") from error
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
    for line in itertools.islice(lines, _MOST_DAMAGED):
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
