"""A measurer that returns recorded results, and the search space of these records.

Tuners run on it at full speed and without a device; failures, and the seconds that building and
running took, are those recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autotune.errors import UsageError
from autotune.measure.measurer import Measurer
from autotune.measure.result import MeasureError, MeasureInput, MeasureResult
from autotune.measure.timing_policy import TimingPolicy
from autotune.system.words import escaped
from autotune.task.workload import Workload
from records import Record, workload_key
from search_spaces import ChoiceKnob, KnobValue, ListedSpace
from search_spaces.knob import as_value


class RecordedKnob(ChoiceKnob):
    """The values that a knob has in records, ascending if they are numbers.

    Records do not tell which value is the default: it is the middle one.
    """

    @property
    def default(self) -> int:
        """Position of the middle value."""
        return len(self) // 2


@dataclass(frozen=True)
class Recording:
    """The measurements of one workload: a space, and the result of each configuration in it."""

    name: str  # What tables call it.
    space: ListedSpace  # Exactly the configurations that were recorded.
    results: Mapping[int, MeasureResult]  # By index in `space`.

    @property
    def optimum_s(self) -> float | None:
        """Least recorded time in seconds; None if nothing worked."""
        costs = (result.cost_s for result in self.results.values() if result.cost_s is not None)
        return min(costs, default=None)

    @classmethod
    def of(cls, records: Sequence[Record], name: str) -> Recording:
        """Make a recording of the records of one workload.

        Of several trials of a configuration the fastest counts; a failure, if there is no other.

        UsageError if there are no records, or they do not all have the same knobs.
        """
        records = [record for record in records if record.is_trial]
        if not records:
            raise UsageError(f"{name} holds no measurements to replay")
        knobs = _knobs(records, name)
        rows = [
            [knob.index_of(record.config["values"][knob.name]) for knob in knobs]
            for record in records
        ]
        space = ListedSpace(knobs, rows)
        results: dict[int, MeasureResult] = {}
        for index, record in zip(space.indices_of(rows).tolist(), records, strict=True):
            result, old = result_of(record), results.get(index)
            if old is None or _order(result) < _order(old):
                results[index] = result
        return cls(name, space, results)


def recordings(records: Iterable[Record], name: str) -> list[Recording]:
    """Return one recording per workload and target among records, the largest first.

    One workload is called `name`; of several each has its own appended.
    """
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(workload_key(record), []).append(record)
    parts = sorted(groups.values(), key=len, reverse=True)
    if len(parts) == 1:
        return [Recording.of(parts[0], name)]
    templates = Counter(part[0].template for part in parts)
    found = []
    for part in parts:
        first = part[0]
        whole = Workload(first.template, first.args, first.constant)
        unique = templates[first.template] == 1
        own = escaped(first.template) if unique else str(whole)
        found.append(Recording.of(part, f"{name}:{own}"))
    return found


class ReplayMeasurer(Measurer):
    """A measurer that answers with recorded results."""

    policy = TimingPolicy(repeats=1)  # one number for each configuration

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def run(self, candidate: MeasureInput) -> MeasureResult:
        """Return the recorded result of a candidate.

        UsageError if the configuration was not recorded.
        """
        result = self._recording.results.get(candidate.config.index)
        if result is None:
            raise UsageError(f"{self._recording.name} has no record of {candidate.config}")
        return result


def result_of(record: Record) -> MeasureResult:
    """Return a record's measurement."""
    return MeasureResult(
        costs_s=record.costs_s,
        error=None if record.error is None else MeasureError.from_json(record.error),
        build_s=record.build_s,
        run_s=record.run_s,
        code_hash=(record.fingerprints or {}).get("code"),
        max_error=record.max_error,
        raced=record.raced,
        noise=record.noise,
        timestamp=record.timestamp,
    )


def _order(result: MeasureResult) -> float:
    return float("inf") if result.cost_s is None else result.cost_s


def _knobs(records: Sequence[Record], name: str) -> list[RecordedKnob]:
    first = records[0].config["values"]
    seen: dict[str, dict[KnobValue, None]] = {knob: {} for knob in first}
    for record in records:
        values: Mapping[str, Any] = record.config["values"]
        if values.keys() != first.keys():
            raise UsageError(
                f"{name}: configurations with different knobs: "
                f"{', '.join(first)} and {', '.join(values)}"
            )
        for knob, value in values.items():
            try:
                seen[knob][as_value(value)] = None  # type: ignore[index]
            except TypeError as error:
                raise UsageError(f"{name}: knob {knob!r} has the value {value!r}") from error
    return [RecordedKnob(knob, _ordered(list(values))) for knob, values in seen.items()]


def _ordered(values: list[KnobValue]) -> list[KnobValue]:
    """Sort values that compare with each other; others stay in order of appearance."""
    try:
        return sorted(values)
    except TypeError:
        return values
