"""Counts the lines of a log that are not records, and gives one warning for all."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from pathlib import Path

from records.caller_warnings import warn
from records.record_errors import RecordError, RecordWarning

_log = logging.getLogger(__name__)

_NAMED = 5  # Lines whose numbers a message lists.


@dataclass
class SkippedLines:
    """Lines that are no records: how many, and the numbers of the first with the reasons."""

    count: int = 0
    first: list[tuple[int, str]] = field(default_factory=list)

    def add(self, number: int, why: Exception) -> None:
        """Take in a line."""
        self.count += 1
        if len(self.first) < _NAMED:
            self.first.append((number, str(why)))

    def add_all(self, more: SkippedLines, lines: int) -> None:
        """Take in those of lines that follow on `lines` others."""
        self.count += more.count
        self.first += [(lines + number, why) for number, why in more.first]
        del self.first[_NAMED:]

    def tell(self, path: Path, found: bool) -> None:
        """Warn of them; RecordError if the log has such lines and no record.

        `found`: whether the log has a record.
        """
        if not self.count:
            return
        number, why = self.first[0]
        if not found:
            raise RecordError(
                f"{path} is not a log of records, none of its lines is one (line {number}: "
                f"{why}): check the path"
            )
        numbers = ", ".join(str(number) for number, _ in self.first)
        more = ", ..." if self.count > len(self.first) else ""
        lines = "1 line" if self.count == 1 else f"{self.count} lines"
        reasons = "; ".join(dict.fromkeys(why for _, why in self.first))
        warn_and_log(f"{path}: skipped {lines} (number {numbers}{more}) of no record: {reasons}")

    def to_json(self) -> str:
        """Return it as a text."""
        return json.dumps([self.count, self.first])

    @classmethod
    def from_json(cls, text: str) -> SkippedLines:
        """Return what `to_json` was made of; ValueError if it is no such text."""
        count, first = json.loads(text)
        return cls(int(count), [(int(number), str(why)) for number, why in first])


def warn_and_log(message: str) -> None:
    """Say by a `RecordWarning` and in the logging what is passed over, or is wrong with a log."""
    _log.warning(message)
    warn(message, RecordWarning)
