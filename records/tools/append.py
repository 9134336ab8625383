"""Appends the records to a log that it does not have yet."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from records.storage.append_only_log import RecordStore
from records.tools.keys import content_digest
from records.tools.log_lines import LogFile, LogLine, records_of

_BLOCK = 1024  # Lines that are appended at a time, all or none.


@dataclass(frozen=True)
class Appended:
    """How many records were appended, and how many were there already."""

    added: int
    duplicates: int


def append_new(lines: Iterable[LogLine], path: Path) -> Appended:
    """Append records to the log at `path`, made if needed; those that it has are left out.

    Others may append at the same time. If the disk is full, what was appended stays, and the next
    call goes on from there.

    RecordError if the log cannot be read or written.
    """
    store, seen, duplicates = RecordStore(path), set[bytes](), 0
    if path.exists():
        seen.update(content_digest(line.data) for line in records_of(LogFile(path).lines()))

    def new() -> Iterator[bytes]:
        nonlocal duplicates
        for line in lines:
            content = content_digest(line.data)
            if content in seen:
                duplicates += 1
            else:
                seen.add(content)
                yield line.data + b"\n"

    fresh, added = new(), 0
    while block := list(itertools.islice(fresh, _BLOCK)):
        _append(store, b"".join(block))
        added += len(block)
    return Appended(added, duplicates)


def _append(store: RecordStore, data: bytes) -> None:
    store.appending(lambda fd: store.write(fd, data))
