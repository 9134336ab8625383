"""Chooses the record that a build uses, the closest grade first."""

from __future__ import annotations

import itertools
import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from autotune.errors import AutotuneError
from autotune.reuse.grades import Grade, Match, device_text, match, named_devices, present_device
from autotune.reuse.problems import (
    TOO_FAST,
    doubt_problem,
    least_cost_s,
    refusal_problem,
    version_problem,
)
from autotune.reuse.task_finder import NOT_IN_SPACE
from autotune.system.words import counted, named
from autotune.task.task import Task
from autotune.task.workload import Workload
from records import Record, ranked
from records.best_of_group import MOST_TRIALS
from records.groups import RecordGroup, RecordSource, as_source
from search_spaces import Config

_log = logging.getLogger(__name__)

_NEAREST = 8  # Shapes that are tried, the nearest first.
_MORE = 16  # If no record of a group is plausible, so many times as many are read.


@dataclass(frozen=True)
class Choice:
    """The record that a build uses.

    `record`: the measurement.
    `config`: its configuration in today's space.
    `grade`: how it was found.
    `outdated`: a message, if the present template does not make it; else empty.
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
    the latest final comparison chose, else the fastest trial (see `records.ranked`). A record is
    skipped if its configuration is not in the present space or no longer allowed, or if it is not
    plausible (`plausibility`). Records that were skipped or not admitted are counted and reported.

    Parameters
    ----------
    task : Task
    records : RecordSource or iterable of Record
    reuse : Grade or str
        The most distant grade that is admitted.
    any_device : bool
        Admit records of the same workload from any device, too.
    notify : callable
        Called with each reason, in one line.
    """
    return next(iter(choices(task, records, 1, reuse, any_device, notify)), None)


def choices(
    task: Task,
    records: RecordSource | Iterable[Record],
    most: int,
    reuse: Grade | str = Grade.EXACT,
    any_device: bool = False,
    notify: Callable[[str], object] = _log.warning,
) -> list[Choice]:
    """Return the best records of the closest grade, each with another configuration.

    The first is the one of `choose`, which documents the other parameters.

    Parameters
    ----------
    most : int
        Largest number of records, >= 1.
    """
    reuse = Grade(reuse)
    search = _Search(task, as_source(records), notify, other_shapes=reuse.rank >= Grade.SHAPE.rank)
    found = search.best(
        most,
        lambda near: near.rank <= reuse.rank or (any_device and near.same_shape),
        outdated=reuse is Grade.ANY,
    )
    search.tell()
    return found


class _Search:
    """One search for a record; collects why records were skipped.

    `other_shapes`: whether records of other shapes may be admitted; else they are not read.
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
        self._read: dict[str, _ReadGroup] = {}  # By the keys of the groups.

    def best(self, most: int, admits: Callable[[Match], bool], outdated: bool) -> list[Choice]:
        """Return at most so many records of the closest admitted grade, the best ones.

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
            keys = [self._look_at(near, group) for _, group in level]
            found = self._first_ranked(most, keys)
            if found:
                return found
        if not outdated:
            return []
        keys = [key for key, read in self._read.items() if read.old]
        return self._first_ranked(most, keys, outdated=True)

    def _look_at(self, near: Match, group: RecordGroup, most: int = MOST_TRIALS) -> str:
        """Read the `most` fastest trials of a group, and its final comparisons; return its key."""
        records = self._source.records_of(group, most)
        read = self._read[group.key] = _ReadGroup(near, group, most)
        try:
            task = self._task if near.same_shape else self._task.with_args(group.args)
            self._sort(read, task, records)
        except AutotuneError:
            if near.same_shape:
                raise
            read.current.clear()
            read.problems["today's template refuses such sizes"] += len(records)
            return group.key
        trials = [record.cost_s for record in records if record.is_trial]
        if len(trials) < group.ok:
            read.slowest_s = trials[-1]
        return group.key

    def _sort(self, read: _ReadGroup, task: Task, records: Sequence[Record]) -> None:
        """Separate the records that the present template makes from the others, as far as known.

        `task`: the workload of the records.
        """
        near, old = read.near, dict[int, _Candidate]()
        least_s = least_cost_s(task, read.group.device, self._here)
        for record in records:
            if record.ok and record.cost_s < least_s:
                read.problems[TOO_FAST.text] += 1
                continue
            problem = version_problem(task, record, near.same_schedules)
            if problem is None:
                read.current[id(record)] = _Candidate(task, record, near.grade)
            elif near.same_shape and problem.kind != NOT_IN_SPACE:
                old[id(record)] = _Candidate(task, record, Grade.ANY, problem.text)
            else:
                read.problems[problem.text] += 1
        if read.current and old:
            read.problems[next(iter(old.values())).outdated] += len(old)
        else:
            read.old = old

    def _first_ranked(self, most: int, keys: Sequence[str], outdated: bool = False) -> list[Choice]:
        """Return the best plausible records of some equally near groups.

        Of each group only the fastest records have been read at first. Before a slower record is
        taken, more of the group is read. So a usable record is found however many implausible ones
        come before it.

        `outdated`: whether records of earlier versions of the template count.
        """
        while True:
            reads = [self._read[key] for key in keys]
            if outdated:
                for read in reads:
                    read.current, read.old = {**read.current, **read.old}, {}
            found = {key: (read, one) for read in reads for key, one in read.current.items()}
            cut = min(filter(_is_cut, reads), key=lambda read: read.slowest_s, default=None)
            usable = [one.record for _, one in found.values()]
            if len(keys) > 1:  # Together they have lost the order of the log: times stand for it.
                usable.sort(key=lambda record: record.timestamp)
            chosen = dict[int, Choice]()  # By their configurations.
            for record in ranked(usable):
                if cut is not None and record.is_trial and record.cost_s > cut.slowest_s:
                    break
                read, one = found[id(record)]
                doubted = doubt_problem(one.made_by, record, self._here)
                problem = doubted or refusal_problem(self._task, record)
                if problem is None:
                    space = self._task.space
                    index = space.index_of(record.config["values"])
                    choice = Choice(record, space.config(index), one.grade, one.outdated)
                    chosen.setdefault(index, choice)
                    if len(chosen) == most:
                        return list(chosen.values())
                    continue
                read.pass_over(record, problem.text, is_refused=doubted is None)
            if cut is None:
                return list(chosen.values())
            if _is_cut(cut):
                self._look_at(cut.near, cut.group, _MORE * cut.most)

    def tell(self) -> None:
        """Report what was not used and why, a line for each reason."""
        workload = self._task.workload
        if self._elsewhere:
            groups = [group for _, group in self._elsewhere]
            least = max((near.grade for near, _ in self._elsewhere), key=lambda one: one.rank)
            of = named_devices((group.device for group in groups), self._here)
            self._notify(
                f"{_records(groups, workload)} from other devices ({of}) and not used: "
                f"reuse {str(least)!r} admits such devices"
            )
        outdated: dict[str, list[RecordGroup]] = {}
        passed = Counter[tuple[bool, str]]()  # By whether they are of this shape, and why.
        for read in self._read.values():
            if read.old:
                text = next(iter(read.old.values())).outdated
                outdated.setdefault(text, []).append(read.group)
            for problem, count in read.problems.items():
                passed[read.near.same_shape, problem] += count
        for text, groups in outdated.items():
            self._notify(f"{_records(groups, workload)} {text} and not used")
        for (same_shape, problem), count in passed.items():
            of = str(workload) if same_shape else f"shapes near {workload}"
            self._notify(f"{counted(count, 'record')} of {of} passed over: {problem}")


@dataclass(frozen=True)
class _Candidate:
    """A record that may be used."""

    made_by: Task  # The record's own workload.
    record: Record
    grade: Grade
    outdated: str = ""  # See `Choice`.


@dataclass
class _ReadGroup:
    """What was read of a group.

    `most`: number of its fastest trials that were read.
    `current`: records that today's template makes, as far as can be told, by their identities.
    `old`: if there are none, records that it does not make.
    `problems`: numbers of those that are passed over, by the reasons.
    `refused`: number of those that are believed, but whose configuration is not allowed.
    `slowest_s`: seconds of the slowest trial that was read; infinite if all were.
    """

    near: Match
    group: RecordGroup
    most: int
    current: dict[int, _Candidate] = field(default_factory=dict)
    old: dict[int, _Candidate] = field(default_factory=dict)
    problems: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    slowest_s: float = math.inf

    def pass_over(self, record: Record, problem: str, is_refused: bool) -> None:
        del self.current[id(record)]
        self.problems[problem] += 1
        self.refused += is_refused


def _is_cut(read: _ReadGroup) -> bool:
    """Whether more of a group may have to be read.

    No more is read of a group whose records so far are all of other template versions.
    """
    return not read.old and math.isfinite(read.slowest_s) and read.refused < MOST_TRIALS


def _count(groups: Sequence[RecordGroup]) -> int:
    return sum(group.records for group in groups)


def _records(groups: Sequence[RecordGroup], workload: Workload) -> str:
    count = _count(groups)
    return f"{counted(count, 'record')} of {workload} {'is' if count == 1 else 'are'}"


def _arguments(record: Record) -> str:
    return str(Workload(record.template, record.args, record.constant))


def why_nothing(task: Task, records: RecordSource | Iterable[Record]) -> str:
    """Return a short text about records of which none can be used for a task: what they are of."""
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
