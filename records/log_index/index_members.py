"""Assigns each line of a log to a group, and keeps the positions of lines that a build may need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from records.best_of_group import MOST_TRIALS, BestOfGroup
from records.groups import group_key, identity
from records.log_index.log_reader import LogReader
from records.outline import Outline
from records.record_errors import NewerSchemaError, RecordError
from records.skipped_lines import SkippedLines

_MOST_KEYS = 1 << 16


@dataclass
class Members:
    """New lines of one group."""

    common: Mapping[str, Any]  # What they share.
    best: BestOfGroup[tuple[int, int]]  # Where lines begin, and their lengths.


@dataclass
class NewLines:
    """What the lines are that were appended to a log."""

    members: dict[str, Members]  # By the keys of their groups, in order of first appearance.
    lines: int  # Number of lines up to the end, those read before included.
    skipped: SkippedLines


def read_members(
    log: LogReader, start: int, lines: int, skipped: SkippedLines, most: int = MOST_TRIALS
) -> NewLines:
    """Return what the whole lines of a log from byte `start` on are.

    `lines`: number of the lines before.
    `skipped`: those of them that are no records; more are added.
    `most`: largest number of trials of a group whose positions are returned.

    RecordError if a later version wrote one of them.
    """
    members: dict[str, Members] = {}
    keys = _Keys()
    for line in log.lines(start):
        lines += 1
        try:
            found = Outline.of_line(line)
        except NewerSchemaError as error:
            raise RecordError(f"{log.store.path}, line {lines}: {error}") from error
        except (ValueError, RecursionError) as error:
            if line and not line.isspace():
                skipped.add(lines, error)
        else:
            key = keys.of(found)
            if key not in members:
                members[key] = Members(identity(found), BestOfGroup(most))
            members[key].best.add(found, (start, len(line)))
        start += len(line) + 1
    return NewLines(members, lines, skipped)


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
            known = self._known[place] = group_key(found), found
        return known[0]
