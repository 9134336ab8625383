"""Counts the lines, entries or results that a reader skips, and gives one warning for all."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator

from records.formats.malformed import MALFORMED, describe_error
from records.record_errors import RecordError
from records.skipped_lines import warn_and_log

_MOST_REASONS = 1000  # different ones that are kept; the others count as one
_PLACES_NAMED = 5
_REASONS_NAMED = 3


class SkippedParts:
    """What was passed over in one file, by reason.

    Parameters
    ----------
    name : str
        The file, for messages.
    what : str
        What is wrong with a part that is passed over, such as "no AutoTVM measurement".
    place : str
        What a part is called before its number or key: "line", "entry", "result".
    """

    def __init__(self, name: str, what: str, place: str) -> None:
        self._name, self._what, self._place = name, what, place
        self._places: list[str] = []
        self._first = ""
        self.reasons: Counter[str] = Counter()
        self.found = 0  # Parts that were read.

    @contextlib.contextmanager
    def reading(self, place: object) -> Iterator[None]:
        """Count a part that the block reads, or passes over because it is malformed."""
        try:
            yield
            self.found += 1
        except MALFORMED as error:
            self.add(place, error)

    def add(self, place: object, why: Exception | str) -> None:
        """Count a part that is passed over; `place`: its number or key."""
        reason = why if isinstance(why, str) else describe_error(why)
        if reason not in self.reasons and len(self.reasons) >= _MOST_REASONS:
            reason = "other reasons"
        self.reasons[reason] += 1
        self._first = self._first or reason
        if len(self._places) <= _PLACES_NAMED:
            self._places.append(str(place)[:60])

    def tell(self) -> None:
        """Warn of what was passed over; RecordError if that is all there is."""
        count = self.reasons.total()
        if not count:
            return
        if not self.found:
            raise RecordError(
                f"{self._name}, {self._place} {self._places[0]}: {self._what}: {self._first}"
            )
        more = ", ..." if count > _PLACES_NAMED else ""
        places = ", ".join(self._places[:_PLACES_NAMED]) + more
        parts = [
            f"{reason} ({number})" if len(self.reasons) > 1 else reason
            for reason, number in self.reasons.most_common(_REASONS_NAMED)
        ]
        rest = "; ..." if len(self.reasons) > _REASONS_NAMED else ""
        message = (
            f"{self._name}: skipped {count} of {count + self.found} ({self._place} {places}): "
            f"{self._what}: {'; '.join(parts)}{rest}"
        )
        warn_and_log(message)
