"""Chooses the record that a build goes by, the closest grade first."""

from __future__ import annotations

import itertools
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from autotune.errors import AutotuneError
from autotune.reuse.grades import Grade, Match, device_text, match, named_devices, present_device
from autotune.reuse.problems import doubt_problem, refusal_problem, version_problem
from autotune.reuse.task_finder import NOT_IN_SPACE
from autotune.system.words import counted, named
from autotune.task.task import Task
from autotune.task.workload import Workload
from records import Record, ranked
from records.groups import RecordGroup, RecordSource, as_source
from search_spaces import Config

_log = logging.getLogger(__name__)

_NEAREST = 8  # Shapes that are tried, the nearest first.


@dataclass(frozen=True)
class Choice:
    """What a build goes by.

    `record`: the measurement.
    `config`: its configuration in today's space.
    `grade`: how it was found.
    `outdated`: in words, if today's template does not make it; else empty.
    """

    record: Record
    config: Config
    grade: Grade
    outdated: str = ""

    @property
    def text(self) -> str:
        """What to know of a record that is not exact, in words; empty for one that is."""
        where = device_text(self.record.device)
        if self.outdated:
            return f"{self.outdated}: on {where}"
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
        self._here = here = present_device(task)
        workload = task.workload
        groups = source.groups(workload.template, None if other_shapes else workload.args)
        near = ((match(task, here, group), group) for group in groups)
        self._near = sorted(
            ((found, group) for found, group in near if found is not None),
            key=lambda pair: pair[0],
        )
        self._elsewhere: list[tuple[Match, RecordGroup]] = []
        # Groups of the same workload that today's template does not make, and the records.
        self._outdated: list[tuple[RecordGroup, list[_Candidate]]] = []
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
                candidate for near, group in level for candidate in self._current(near, group)
            )
            if found is not None:
                return found
        if not outdated:
            return None
        old, self._outdated = self._outdated, []
        return self._ranked_first(candidate for _, found in old for candidate in found)

    def _current(self, near: Match, group: RecordGroup) -> list[_Candidate]:
        """Return the records of a group that today's template makes, as far as can be told."""
        records = self._source.records_of(group)
        found, old = [], []
        try:
            task = self._task if near.same_shape else self._task.with_args(group.args)
            for record in records:
                problem = version_problem(task, record, near.same_schedules)
                if problem is None:
                    found.append(_Candidate(task, record, near.grade))
                elif near.same_shape and problem.kind != NOT_IN_SPACE:
                    old.append(_Candidate(task, record, Grade.ANY, problem.text))
                else:
                    self._pass_over(near.same_shape, problem.text)
        except AutotuneError:
            if near.same_shape:
                raise
            self._pass_over(False, "today's template refuses such sizes", len(records))
            return []
        if found and old:
            self._pass_over(True, old[0].outdated, len(old))
        elif old:
            self._outdated.append((group, old))
        return found

    def _ranked_first(self, candidates: Iterable[_Candidate]) -> Choice | None:
        """Return the best of records that are equally near and to be believed."""
        found = {id(candidate.record): candidate for candidate in candidates}
        for record in ranked(candidate.record for candidate in found.values()):
            one = found[id(record)]
            problem = refusal_problem(self._task, record) or doubt_problem(
                one.made_by, record, self._here
            )
            if problem is None:
                config = self._task.space.config(self._task.space.index_of(record.config["values"]))
                return Choice(record, config, one.grade, one.outdated)
            self._pass_over(one.made_by is self._task, problem.text)
        return None

    def _pass_over(self, same_shape: bool, problem: str, count: int = 1) -> None:
        self._problems[same_shape, problem] += count

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
        for text in dict.fromkeys(found[0].outdated for _, found in self._outdated):
            groups = [group for group, found in self._outdated if found[0].outdated == text]
            self._notify(f"{_records(groups, workload)} {text} and not used")
        for (same_shape, problem), count in self._problems.items():
            of = str(workload) if same_shape else f"shapes near {workload}"
            self._notify(f"{counted(count, 'record')} of {of} passed over: {problem}")


@dataclass(frozen=True)
class _Candidate:
    """A record that may be used."""

    made_by: Task  # The record's own workload.
    record: Record
    grade: Grade
    outdated: str = ""  # See `Choice`.


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
