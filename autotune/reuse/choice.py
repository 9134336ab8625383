"""Chooses the record that a build goes by, the closest grade first."""

from __future__ import annotations

import itertools
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autotune.errors import AutotuneError, InstantiationError
from autotune.reuse.doubts import doubt
from autotune.reuse.grades import Grade, Match, device_text, match, named_devices, present_device
from autotune.reuse.valid_records import current_index
from autotune.system.words import counted, named
from autotune.task.task import Task
from autotune.task.workload import Workload
from records import Record, ranked
from records.groups import RecordGroup, RecordSource, as_source
from search_spaces import Config, SpaceError

_log = logging.getLogger(__name__)

_NEAREST = 8  # Shapes that are tried, the nearest first.
_OLD = "measured with an earlier version of this template"


@dataclass(frozen=True)
class Choice:
    """What a build goes by.

    `record`: the measurement.
    `config`: its configuration in today's space.
    `grade`: how it was found.
    `outdated`: whether an earlier version of the template made it.
    """

    record: Record
    config: Config
    grade: Grade
    outdated: bool = False

    @property
    def text(self) -> str:
        """What to know of a record that is not exact, in words; empty for one that is."""
        where = device_text(self.record.device)
        if self.outdated:
            return f"{_OLD}: on {where}"
        match self.grade:
            case Grade.KIND:
                return f"measured on this kind of device: {where}, {self.record.target}"
            case Grade.SHAPE:
                return f"of the nearest shape: {_arguments(self.record)}"
            case Grade.ANY:
                return f"measured elsewhere: {_arguments(self.record)} on {where}"
        return ""


def choose(
    task: Task,
    records: RecordSource | Iterable[Record],
    reuse: Grade | str = Grade.EXACT,
    any_device: bool = False,
    notify: Callable[[str], object] = _log.warning,
) -> Choice | None:
    """Return the best record of the closest grade that may be used; None if there is none.

    Within a grade the nearest records count first, and of those that are equally near the one that
    the latest final comparison chose, else the fastest trial (see `records.ranked`). Passed over
    are records whose configuration is not in today's space or no longer allowed, and those that
    are not to be believed (`doubts`). What was passed over or not admitted is counted and told.

    Parameters
    ----------
    task : Task
    records : RecordSource or iterable of Record
    reuse : Grade or str
        The most distant grade that is admitted.
    any_device : bool
        Admit records of the same workload from any device, too.
    notify : callable
        Told each reason, in one line.
    """
    reuse = Grade(reuse)
    search = _Search(task, as_source(records), notify)
    found = search.best(
        lambda near: near.rank <= reuse.rank or (any_device and near.same_shape),
        outdated=reuse is Grade.ANY,
    )
    search.tell()
    return found


class _Search:
    """One search for a record, and what it passes over."""

    def __init__(self, task: Task, source: RecordSource, notify: Callable[[str], object]) -> None:
        self._task = task
        self._source = source
        self._notify = notify
        self._here = here = present_device(task)
        near = ((match(task, here, g), g) for g in source.groups(task.workload.template))
        self._near = sorted(
            ((found, group) for found, group in near if found is not None),
            key=lambda pair: pair[0],
        )
        self._elsewhere: list[tuple[Match, RecordGroup]] = []
        # Groups of the same workload, with those of their records that are in today's space.
        self._outdated: list[tuple[Match, RecordGroup, list[tuple[int, Record]]]] = []
        self._problems: Counter[tuple[bool, str]] = Counter()  # whether of this shape

    def best(self, admits: Callable[[Match], bool], outdated: bool) -> Choice | None:
        """Return the best record of the closest admitted grade.

        `outdated`: whether, in the end, records of earlier versions of the template will do.
        """
        target = self._task.target.recorded
        self._elsewhere = [
            (near, group)
            for near, group in self._near
            if near.same_shape and group.target == target and not admits(near)
        ]
        admitted = [pair for pair in self._near if admits(pair[0])]
        shapes = 0
        for near, level in itertools.groupby(admitted, key=lambda pair: pair[0]):
            shapes += not near.same_shape
            if shapes > _NEAREST:
                break
            found = self._ranked_first(
                candidate for _, group in level for candidate in self._current(near, group)
            )
            if found is not None:
                return found
        if not outdated:
            return None
        old, self._outdated = self._outdated, []
        return self._ranked_first(
            _Candidate(
                self._task, None, index, record, self._device_of(near, record), Grade.ANY, True
            )
            for near, _, records in old
            for index, record in records
        )

    def _in_space(self, near: Match, group: RecordGroup) -> list[tuple[int, Record]]:
        """Return the records of a group, with their configurations in today's space."""
        found = []
        for record in self._source.records_of(group):
            try:
                found.append((self._task.space.index_of(record.config["values"]), record))
            except SpaceError:
                self._pass_over(near.same_shape, "the configuration is not in today's space")
        return found

    def _current(self, near: Match, group: RecordGroup) -> list[_Candidate]:
        """Return the records of a group that today's template makes, as far as can be told."""
        records = self._in_space(near, group)
        try:
            made_by = self._task if near.same_shape else self._task.with_args(group.args)
            found = [
                _Candidate(made_by, own, index, record, self._device_of(near, record), near.grade)
                for index, record in records
                if (own := current_index(made_by, record)) is not None or not near.same_schedules
            ]
        except AutotuneError:
            self._pass_over(False, "today's template refuses such sizes", len(records))
            return []
        if not found and near.same_shape and records:
            self._outdated.append((near, group, records))
        elif len(found) < len(records):
            self._pass_over(near.same_shape, _OLD, len(records) - len(found))
        return found

    def _device_of(self, near: Match, record: Record) -> Mapping[str, Any]:
        """Return what is known of a record's device: on this kind also what is known of this."""
        return record.device if near.grade is Grade.ANY else {**self._here, **record.device}

    def _ranked_first(self, candidates: Iterable[_Candidate]) -> Choice | None:
        """Return the best of records that are equally near and to be believed."""
        found = {id(candidate.record): candidate for candidate in candidates}
        for record in ranked(candidate.record for candidate in found.values()):
            candidate = found[id(record)]
            problem = self._refusal(candidate.index) or doubt(
                candidate.made_by, candidate.own_index, record, candidate.device
            )
            if not problem:
                config = self._task.space.config(candidate.index)
                return Choice(record, config, candidate.grade, candidate.outdated)
            self._pass_over(candidate.made_by is self._task, problem)
        return None

    def _pass_over(self, same_shape: bool, problem: str, count: int = 1) -> None:
        self._problems[same_shape, problem] += count

    def _refusal(self, index: int) -> str:
        try:
            refused = self._task.refusal(index)
        except InstantiationError as error:
            return str(error)
        return f"its configuration is no longer allowed: {refused}" if refused else ""

    def tell(self) -> None:
        """Tell what was not used and why, a line for each reason."""
        workload = self._task.workload
        if self._elsewhere:
            groups = [group for _, group in self._elsewhere]
            least = max((near.grade for near, _ in self._elsewhere), key=lambda one: one.rank)
            of = named_devices((group.device for group in groups), self._here)
            self._notify(
                f"{_records(groups, workload)} from other devices ({of}) and not used: "
                f"reuse {str(least)!r} admits {'it' if _count(groups) == 1 else 'them'}"
            )
        unmarked = [group for _, group, _ in self._outdated if group.fingerprint is None]
        if unmarked:
            self._notify(
                f"{_records(unmarked, workload)} without the version of its template and not used"
            )
        if outdated := [group for _, group, _ in self._outdated if group.fingerprint is not None]:
            self._notify(f"{_records(outdated, workload)} {_OLD} and not used")
        for (same_shape, problem), count in self._problems.items():
            of = str(workload) if same_shape else f"shapes near {workload}"
            self._notify(f"{counted(count, 'record')} of {of} passed over: {problem}")


@dataclass(frozen=True)
class _Candidate:
    """A record that may be used."""

    made_by: Task  # The record's own workload.
    own_index: int | None  # The configuration in its space; None if it made another program of it.
    index: int  # The configuration in the space of the wanted workload.
    record: Record
    device: Mapping[str, Any]  # What is known of the record's.
    grade: Grade
    outdated: bool = False


def _count(groups: Sequence[RecordGroup]) -> int:
    return sum(group.records for group in groups)


def _records(groups: Sequence[RecordGroup], workload: Workload) -> str:
    count = _count(groups)
    return f"{counted(count, 'record')} of {workload} {'is' if count == 1 else 'are'}"


def _arguments(record: Record) -> str:
    return str(Workload(record.template, record.args, record.constant))


def why_nothing(task: Task, records: RecordSource | Iterable[Record]) -> str:
    """Return what records are of, if none of them can be used for a task, in some words."""
    workload, target = task.workload, task.target.recorded
    groups = as_source(records).groups()
    own = [g for g in groups if Workload(g.template, g.args, g.constant) == workload]
    if here := [g for g in own if g.target == target]:
        ok = sum(group.ok + group.finals for group in here)
        held = "none of them can be used" if ok else "all of them failed"
        return f"{counted(sum(group.records for group in here), 'record')} of it, {held}"
    alike = [g for g in groups if g.template == workload.template]
    same = [g for g in alike if g.args == workload.args]
    for one, several, names in (
        ("another target", "other targets", (g.target for g in own)),
        (
            "the same workload with another set of constant inputs",
            "the same workload with other sets of constant inputs",
            (str(list(g.constant)) for g in same if g.target == target),
        ),
        (
            "another workload",
            "other workloads",
            (str(Workload(g.template, g.args, g.constant)) for g in alike),
        ),
        ("another template", "other templates", (g.template for g in groups)),
    ):
        if found := sorted(set(names)):
            return f"the records are of {one if len(found) == 1 else several}: {named(found)}"
    return "there are no records"
