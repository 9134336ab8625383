"""Chooses the record that a build goes by, the closest grade first."""

from __future__ import annotations

import itertools
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from autotune.errors import AutotuneError, InstantiationError
from autotune.reuse.doubts import doubt
from autotune.reuse.grades import Grade, Match, device_text, match, named_devices, present_device
from autotune.system.words import counted, named
from autotune.task.task import Task
from autotune.task.workload import Workload
from records import Record, ranked
from records.groups import RecordGroup, RecordSource, as_source
from search_spaces import Config, SpaceError

_log = logging.getLogger(__name__)

_NEAREST = 8  # Shapes that are tried, the nearest first.


@dataclass(frozen=True)
class Choice:
    """What a build goes by.

    `record`: the measurement.
    `config`: its configuration in today's space.
    `grade`: how it was found.
    """

    record: Record
    config: Config
    grade: Grade

    @property
    def text(self) -> str:
        """What to know of a record that is not exact, in words; empty for one that is."""
        where = device_text(self.record.device)
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
    search = _Search(task, as_source(records), notify, other_shapes=reuse.rank >= Grade.SHAPE.rank)
    found = search.best(
        lambda near: near.rank <= reuse.rank or (any_device and near.same_shape),
        outdated=reuse is Grade.ANY,
    )
    search.tell()
    return found


class _Search:
    """One search for a record, and what it passes over.

    `other_shapes`: whether records of other shapes may be admitted; else they are not looked at.
    """

    def __init__(
        self,
        task: Task,
        source: RecordSource,
        notify: Callable[[str], object],
        other_shapes: bool,
    ) -> None:
        self._task = task
        self._source = source
        self._notify = notify
        here = present_device(task)
        workload = task.workload
        groups = source.groups(workload.template, None if other_shapes else workload.args)
        near = ((match(task, here, group), group) for group in groups)
        self._near = sorted(
            ((found, group) for found, group in near if found is not None),
            key=lambda pair: pair[0],
        )
        self._elsewhere: list[RecordGroup] = []
        self._outdated: list[RecordGroup] = []  # of the same workload
        self._problems: Counter[str] = Counter()

    def best(self, admits: Callable[[Match], bool], outdated: bool) -> Choice | None:
        """Return the best record of the closest admitted grade.

        `outdated`: whether, in the end, records of earlier versions of the template will do.
        """
        target = self._task.target.recorded
        self._elsewhere = [
            group
            for near, group in self._near
            if near.same_shape and group.target == target and not admits(near)
        ]
        admitted = [(near, group) for near, group in self._near if admits(near)]
        shapes = 0
        for near, level in itertools.groupby(admitted, key=lambda pair: pair[0]):
            shapes += not near.same_shape
            if shapes > _NEAREST:
                break
            found = self._best_of([group for _, group in level], near)
            if found is not None:
                return found
        if not outdated:
            return None
        old, self._outdated = self._outdated, []
        return self._best_of(old, None)

    def _best_of(self, groups: Sequence[RecordGroup], near: Match | None) -> Choice | None:
        """Return the best record of groups that are equally near; None: of any version."""
        found: dict[int, tuple[int, Record]] = {}
        for group in groups:
            records = [
                (index, record)
                for record in self._source.records_of(group)
                if (index := self._index(record)) is not None
            ]
            if near is None or any(self._is_current(near, *pair) for pair in records):
                found |= {id(record): (index, record) for index, record in records}
            elif near.same_shape and records:
                self._outdated.append(group)
        grade = Grade.ANY if near is None else near.grade
        for record in ranked(record for _, record in found.values()):
            choice = self._usable(record, found[id(record)][0], grade)
            if choice is not None:
                return choice
        return None

    def _index(self, record: Record) -> int | None:
        """Return a record's configuration in today's space; None if it is not in there."""
        try:
            return self._task.space.index_of(record.config["values"])
        except SpaceError:
            self._problems["the configuration is not in today's space"] += 1
            return None

    def _is_current(self, near: Match, index: int, record: Record) -> bool:
        """Whether today's template made a record."""
        made_by = (record.fingerprints or {}).get("template")
        task = self._task
        try:
            if not near.same_shape:
                task = task.with_args(record.args)
                index = task.space.index_of(record.config["values"])
            return made_by == task.fingerprints_of(index)["template"]
        except (AutotuneError, SpaceError):
            return False

    def _usable(self, record: Record, index: int, grade: Grade) -> Choice | None:
        """Return a record as a choice, unless it is refused or not to be believed."""
        try:
            refused = self._task.refusal(index)
            problem = f"its configuration is no longer allowed: {refused}" if refused else ""
        except InstantiationError as error:
            problem = str(error)
        problem = problem or doubt(self._task, index, record)
        if problem:
            self._problems[problem] += 1
            return None
        return Choice(record, self._task.space.config(index), grade)

    def tell(self) -> None:
        """Tell what was not used and why, a line for each reason."""
        workload = self._task.workload
        if self._elsewhere:
            of = named_devices(group.device for group in self._elsewhere)
            self._notify(
                f"{_records(self._elsewhere, workload)} from other devices ({of}) and not used: "
                "reuse 'any' admits them"
            )
        unmarked = [group for group in self._outdated if group.fingerprint is None]
        if unmarked:
            self._notify(
                f"{_records(unmarked, workload)} without the version of its template and not used"
            )
        if outdated := [group for group in self._outdated if group.fingerprint is not None]:
            self._notify(
                f"{_records(outdated, workload)} measured with an earlier version of this template "
                "and not used"
            )
        for problem, count in self._problems.items():
            self._notify(f"{counted(count, 'record')} of {workload} passed over: {problem}")


def _records(groups: Sequence[RecordGroup], workload: Workload) -> str:
    count = sum(group.records for group in groups)
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
