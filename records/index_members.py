"""Reads a log for its index: what its lines are of, and where those stand that a build may need."""

from __future__ import annotations

import hashlib
import json
import os
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from records.append_only_log import LINES_NAMED, RecordStore, last_line_start
from records.files import open_regular
from records.groups import MOST_TRIALS, make_group_key
from records.outline import Outline
from records.record import Record
from records.record_errors import NewerSchemaError, RecordError

_ENDS = 1 << 12  # Bytes at the beginning, and at the end of what was read, that identify a log.
_MOST_UNSORTED = 8 * MOST_TRIALS
_MOST_KEYS = 1 << 16


@dataclass
class Members:
    """New lines of one group."""

    common: Mapping[str, Any]  # What they share.
    trials: int = 0
    ok: int = 0
    best_s: float | None = None
    first_s: float = float("inf")
    last_s: float = float("-inf")
    finals: list[tuple[int, int]] = field(default_factory=list)  # Where they begin, and lengths.
    _timed: list[tuple[float, int, int]] = field(default_factory=list)

    def add(self, found: Outline, start: int, length: int) -> None:
        """Take in a line."""
        self.first_s = min(self.first_s, found.timestamp)
        self.last_s = max(self.last_s, found.timestamp)
        if found.final is not None:
            self.finals.append((start, length))
            return
        self.trials += 1
        if found.cost_s is None:
            return
        self.ok += 1
        if self.best_s is None or found.cost_s < self.best_s:
            self.best_s = found.cost_s
        self._timed.append((found.cost_s, start, length))
        if len(self._timed) > _MOST_UNSORTED:
            self._timed = self.fastest()

    def fastest(self) -> list[tuple[float, int, int]]:
        """Return costs, places and lengths of the fastest trials, earlier ones first if equal."""
        return sorted(self._timed)[:MOST_TRIALS]


@dataclass
class Skipped:
    """Lines that are no records."""

    count: int = 0
    first: list[tuple[int, str]] = field(default_factory=list)  # Their numbers, and why.

    def add(self, number: int, line: bytes, error: Exception) -> None:
        """Take in a line, unless it is blank."""
        if line.isspace():
            return
        self.count += 1
        if len(self.first) < LINES_NAMED:
            self.first.append((number, str(error)))

    def to_json(self) -> str:
        """Return it as a text."""
        return json.dumps([self.count, self.first])

    @classmethod
    def from_json(cls, text: str) -> Skipped:
        """Return what `to_json` was made of; ValueError if it is no such text."""
        count, first = json.loads(text)
        return cls(int(count), [(int(number), str(why)) for number, why in first])


@dataclass
class News:
    """What was read of a log."""

    members: dict[str, Members]  # By the keys of their groups, in order of first appearance.
    lines: int  # Number of lines up to the end, those read before included.
    skipped: Skipped


class LogReader:
    """A log as it was when this object was made; what is appended later is not read.

    RecordError if it cannot be read.
    """

    def __init__(self, store: RecordStore) -> None:
        self.store = store
        descriptors: list[int] = []
        statuses: list[os.stat_result] = []

        def look(fd: int) -> None:
            # Under the lock, so that nobody is in the middle of a line. The descriptor is another
            # one: closing a copy of this one would release the lock.
            statuses.append(os.fstat(fd))
            descriptors.append(open_regular(store.path, os.O_RDONLY))

        if not store.reading(look):
            raise RecordError(f"there is no record log at {store.path}; check the path")
        self._fd, status = descriptors[0], statuses[0]
        weakref.finalize(self, os.close, self._fd)
        if not os.path.samestat(os.fstat(self._fd), status):
            raise RecordError(f"{store.path} was replaced while it was read: try again")
        self.size = status.st_size
        self.modified_ns = status.st_mtime_ns
        self.end = last_line_start(self._fd, self.size)  # Behind the last whole line.

    def lines(self, start: int = 0) -> Iterator[bytes]:
        """Yield the whole lines from byte `start` on."""
        with open(self._fd, "rb", closefd=False) as log:
            log.seek(start)
            while start < self.end and (line := log.readline(self.end - start)):
                start += len(line)
                yield line

    def bytes_at(self, start: int, length: int) -> bytes:
        """Return some bytes of the log."""
        return os.pread(self._fd, length, start)

    def ends(self, end: int) -> tuple[str, str]:
        """Return digests of the first bytes and of the last ones before `end`."""
        length = min(_ENDS, end)
        parts = self.bytes_at(0, length), self.bytes_at(end - length, length)
        head, tail = (hashlib.sha256(part).hexdigest() for part in parts)
        return head, tail

    def unfinished(self, number: int) -> list[Record]:
        """Return the record in a last line without newline, if there is one.

        `number`: of that line.
        """
        rest = self.bytes_at(self.end, self.size - self.end)
        return self.store.parse([rest], number) if rest else []

    def read(self, start: int, lines: int, skipped: Skipped) -> News:
        """Return what the whole lines from byte `start` on are.

        `lines`: number of the lines before.
        `skipped`: those of them that are no records; more are added.

        RecordError if a later version wrote one of them.
        """
        members: dict[str, Members] = {}
        keys = _Keys()
        for line in self.lines(start):
            lines += 1
            try:
                found = Outline.of_line(line)
            except NewerSchemaError as error:
                raise RecordError(f"{self.store.path}, line {lines}: {error}") from error
            except (ValueError, RecursionError) as error:
                skipped.add(lines, line, error)
            else:
                key = keys.of(found)
                if key not in members:
                    members[key] = Members(_common(found))
                members[key].add(found, start, len(line))
            start += len(line)
        return News(members, lines, skipped)


class _Keys:
    """The keys of groups; that of what was seen before is not made again."""

    def __init__(self) -> None:
        # With the objects that identities in the key are of, so that these stay theirs.
        self._known: dict[tuple[int, str, int, str | None], tuple[str, Outline]] = {}

    def of(self, found: Outline) -> str:
        place = (id(found.workload), found.target, id(found.device), found.fingerprint)
        known = self._known.get(place)
        if known is None:
            if len(self._known) >= _MOST_KEYS:
                self._known.clear()
            known = self._known[place] = make_group_key(**_common(found)), found
        return known[0]


def _common(found: Outline) -> dict[str, Any]:
    workload = found.workload
    return {
        "template": workload["template"],
        "args": workload["args"],
        "constant": tuple(workload.get("constant", ())),
        "target": found.target,
        "device": found.device,
        "fingerprint": found.fingerprint,
    }
