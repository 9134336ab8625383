"""The trials of one workload: its records in a log that other runs may append to meanwhile."""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from autotune.measure.result import MeasureResult
from autotune.measure.timing_policy import TimingPolicy
from autotune.reuse.grades import Grade, device_grade
from autotune.reuse.valid_records import valid_records
from autotune.runtime import environment
from autotune.system.words import one_line
from autotune.task.task import Task
from records import Entry, Journal, Record, RecordStore, ranked
from records.storage.shared_journal import JournalPart, SharedJournal
from search_spaces import SpaceError

_log = logging.getLogger(__name__)


class _Draft(NamedTuple):
    """The fields of a configuration's record other than its result."""

    config: dict[str, Any]
    fingerprints: dict[str, str]
    steps: list[Any] | None


class Trials:
    """The valid records of a task's workload and target, including those of other runs.

    policy: how measurements are taken now.
    seed: recorded with each of them.
    any_device: whether records from other devices count.
    device: where it is measured, in the form of `Record.device`; by default the target's device.
    versions: of packages where it is measured; by default those of this machine.
    """

    def __init__(
        self,
        task: Task,
        store: RecordStore,
        policy: TimingPolicy,
        seed: int,
        any_device: bool = False,
        device: Mapping[str, Any] | None = None,
        versions: Mapping[str, str] | None = None,
    ) -> None:
        self._task = task
        self._policy = policy
        self._any_device = any_device
        self._notify: Callable[[str], object] = _log.warning
        self._common: dict[str, Any] = {
            "workload": task.workload.to_json(),
            "target": task.target.recorded,
            "policy": policy.to_json(),
            "device": environment.device(task.target) if device is None else dict(device),
            "versions": environment.versions(task.target) if versions is None else dict(versions),
            "seed": seed,
        }
        self.store = store
        # Devices of the same run for which the workload is tuned, too: their records are no
        # surprise.
        self.beside: Sequence[Mapping[str, Any]] = ()
        self._journal: Journal | JournalPart = Journal(store)
        self._claimed: set[Entry] = set()
        self._drafts: dict[int, _Draft] = {}
        self.recorded: list[Record] = []  # in the order of the log
        self.by_index: dict[int, Record] = {}  # the first record of each configuration of the space
        self.best: Record | None = None  # the fastest
        # The best time after each record, in seconds; None before the first that worked.
        self.bests_s: list[float | None] = []
        # Records of final comparisons, which are no trials, each with its configuration; in the
        # order of the log.
        self.finals: list[tuple[int, Record]] = []

    def __len__(self) -> int:
        return len(self.recorded)

    def share(self, journal: SharedJournal) -> None:
        """Use a journal that other workloads use, too; to be called before the log is read."""
        own = self._task.workload
        part = journal.part(own.template, own.args, self._common["target"], own.constant)
        if part is not None:
            self._journal = part

    @property
    def best_s(self) -> float | None:
        """The best time, in seconds; None if nothing worked yet."""
        return self.bests_s[-1] if self.bests_s else None

    @cached_property
    def default(self) -> int | None:
        """The default configuration; None if none is feasible."""
        try:
            return self._task.default_index
        except SpaceError:
            return None

    @property
    def default_record(self) -> Record | None:
        """The default configuration's record, if there is one."""
        return None if self.default is None else self.by_index.get(self.default)

    @property
    def failures(self) -> dict[str, int]:
        """Failed records by error code."""
        return dict(Counter(r.error["code"] for r in self.recorded if r.error is not None))

    @property
    def first_error(self) -> str:
        """Message of the first failed record, in one line; empty if there is none."""
        messages = (r.error["message"] for r in self.recorded if r.error is not None)
        return one_line(next(messages, ""))

    @property
    def seed(self) -> int:
        """Seed that is recorded."""
        return int(self._common["seed"])

    def default_beside(self, record: Record | None) -> Record | None:
        """Return the record of the default from the same comparison as a given record."""
        if record is None or record.final is None:
            return self.default_record
        found = [
            beside
            for index, beside in self.finals
            if index == self.default
            and beside.final is not None
            and beside.final["comparison"] == record.final["comparison"]
        ]
        return found[0] if found else self.default_record

    @property
    def chosen(self) -> Record | None:
        """The record that a build uses; None if no candidate worked."""
        finals = [record for _, record in self.finals]
        return next(iter(ranked([*finals, *self.recorded])), None)

    def new_records(self) -> list[tuple[int, Record]]:
        """Read the records that other runs have logged since the last time.

        Return the trials among it, with their configurations.
        """
        read = self._journal.new_records()
        news = valid_records(
            self._task, read, self._notify, self._any_device, self._common["device"], self.beside
        )
        self._notify = _log.info  # other machines may append to the log all the time
        # What does not count is measured again, unless another record of it does.
        entries = {Entry.of(record) for _, record in news}
        self._journal.free({Entry.of(record) for record in read} - entries)
        for index, record in news:
            self._take(index, record)
        return [(index, record) for index, record in news if record.is_trial]

    def claim(self, index: int) -> bool:
        """Return whether nobody has measured a configuration or is measuring it; now it is ours."""
        if index in self.by_index:
            return False
        entry = self._entry(index)
        if not self._journal.claim(entry):
            return False
        self._claimed.add(entry)
        return True

    @contextlib.contextmanager
    def claims(self) -> Iterator[None]:
        """At the end release the claims made in between that were not measured."""
        try:
            yield
        finally:
            for entry in self._claimed:
                self._journal.release(entry)
            self._claimed.clear()
            self._drafts.clear()

    def release(self, index: int) -> None:
        """Let others measure a claimed configuration, unless it is recorded; forget its draft."""
        entry = self._entry(index)
        self._journal.release(entry)
        self._claimed.discard(entry)
        self._drafts.pop(index, None)

    def add(self, index: int, result: MeasureResult) -> Record | None:
        """Log a measurement; None if somebody else has logged that configuration meanwhile."""
        record = self._record(index, result)
        if not self._journal.add(record):
            return None
        self._take(index, record)
        return record

    def add_finals(self, found: Sequence[tuple[int, MeasureResult, dict[str, Any]]]) -> None:
        """Log the times of configurations in a final comparison, all of them or none.

        found: configuration, times, and the record's facts about the comparison.
        """
        records = [self._record(*one) for one in found]
        self._journal.add_all(records)
        for (index, _, _), record in zip(found, records, strict=True):
            self._take(index, record)

    def comparable(self, record: Record) -> bool:
        """Whether a record was measured as it would be now, on the same machine."""
        device = device_grade(self._common["device"], record.device)[0]
        same = device is Grade.EXACT and record.versions == self._common["versions"]
        return same and self._policy.comparable(record.policy)

    def close(self) -> None:
        """Release all claims; an empty log that they have made vanishes."""
        self._claimed.clear()
        self._journal.close()

    def draft(self, index: int) -> _Draft:
        """Return the fields of this configuration's record other than its result."""
        found = self._drafts.get(index)
        if found is None:
            found = self._drafts[index] = _Draft(
                self._task.space.config(index).to_json(),
                self._task.fingerprints_of(index),
                self._task.steps_of(index),
            )
        return found

    def _entry(self, index: int) -> Entry:
        draft = self.draft(index)
        values, template = draft.config["values"], draft.fingerprints["template"]
        common = self._common
        return Entry.make(common["workload"], common["target"], values, template, common["device"])

    def _record(
        self, index: int, result: MeasureResult, final: dict[str, Any] | None = None
    ) -> Record:
        draft = self.draft(index)
        code = {} if result.code_hash is None else {"code": result.code_hash}
        own = {} if result.device is None else {"device": dict(result.device)}
        return Record(
            **{**self._common, **own},
            config=draft.config,
            costs_s=result.costs_s,
            error=None if result.error is None else result.error.to_json(),
            timestamp=result.timestamp,
            fingerprints={**draft.fingerprints, **code},
            build_s=result.build_s,
            run_s=result.run_s,
            max_error=result.max_error,
            raced=result.raced,
            noise=result.noise,
            kernels=None if result.kernels is None else list(result.kernels),
            clocks=result.clocks,
            steps=draft.steps,
            final=final,
        )

    def _take(self, index: int, record: Record) -> None:
        if not record.is_trial:
            self.finals.append((index, record))
            return
        self.recorded.append(record)
        self.by_index.setdefault(index, record)
        if record.ok and (self.best is None or record.cost_s < self.best.cost_s):
            self.best = record
        self.bests_s.append(None if self.best is None else self.best.cost_s)
