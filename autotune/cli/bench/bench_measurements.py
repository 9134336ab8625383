"""Measures what `autotune bench` compares: configurations, and the reference.

Each configuration is a trial in the log; a result that the log already has is reused.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from autotune.cli.terminal.output import note, print_error
from autotune.errors import AutotuneError
from autotune.measure.checks.unscheduled_program import float_operations
from autotune.measure.local_measurer import LocalMeasurer
from autotune.measure.measurer import Measurer
from autotune.measure.result import MeasureInput
from autotune.measure.timing_policy import TimingPolicy
from autotune.operators.template_lookup import names_tile
from autotune.report.bench_speeds import BenchmarkedTemplate, Point, Setting
from autotune.report.units import Work
from autotune.reuse.grades import device_text
from autotune.runtime import environment
from autotune.task.task import Task
from autotune.tuner.run.trials import Trials
from records import Record, RecordStore
from search_spaces import KnobValue, SpaceError


@dataclass(frozen=True)
class MeasuredConfigs:
    """The results of given configurations."""

    # By configuration; configurations that another process is just measuring are missing.
    records: dict[int, Record]
    refused: dict[int, str]  # The rule that rejects a configuration, which was not built.
    best: Record | None  # The fastest of all records of the workload, chosen or not.
    # How many of the records are of another device, other versions, or timed otherwise.
    foreign: int


def _claimed(task: Task, trials: Trials, indices: Iterable[int]) -> Iterator[MeasureInput]:
    """Yield the candidates that nobody else has measured or is measuring."""
    for index in indices:
        if trials.claim(index):
            yield MeasureInput(task.space.config(index))


SEED = 0  # Of the inputs: every run computes with the same data.

ELSEWHERE = "another process is measuring it just now"

Key = TypeVar("Key", bound=Hashable)


class Measurements:
    """Measures configurations of tasks of one template, and their baseline.

    store: what it holds is not measured again; what is measured goes there.
    timeout_s: seconds that a candidate may take to build, and again to run.
    varied: arguments in which the tasks differ.
    """

    def __init__(
        self, store: RecordStore, policy: TimingPolicy, timeout_s: float, varied: Sequence[str]
    ) -> None:
        self._store = store
        self._policy = policy
        self._timeout_s = timeout_s
        self._varied = varied
        self._task: Task | None = None
        self._record: Record | None = None
        self._foreign = 0

    def of(
        self, task: Task, wanted: Mapping[Key, Mapping[str, KnobValue]]
    ) -> tuple[Setting, dict[Key, Point], Point | None]:
        """Measure the default configuration with some knobs changed, for each key that is wanted.

        The last result is the fastest of all that the log holds of the task.
        """
        args = {name: task.args[name] for name in self._varied}
        size = ", ".join(f"{name}={value}" for name, value in args.items()) or str(task.workload)
        workload = (task.template_ref, task.args, task.target)
        with LocalMeasurer(*workload, self._policy, self._timeout_s, SEED) as measurer:
            measurer.start()  # it starts up while the template is traced here
            configs, missing = _configurations(task, wanted)
            with _counting(size, len(set(configs.values()))) as count:
                chosen = self._measured(task, measurer, configs.values(), count)
            baseline = _baseline(task, measurer)
        self._note(task, chosen)
        points = {}
        for key in wanted:
            index = configs.get(key)
            if index is None:
                points[key] = Point(wanted[key], None, missing[key])
                continue
            record = chosen.records.get(index)
            why = "" if record is not None else chosen.refused.get(index, ELSEWHERE)
            points[key] = Point(task.space.config(index).values, record, why)
        best = chosen.best
        fastest = None if best is None else Point(best.config["values"], best)
        work = Work(float_operations(task), task.bytes)
        return Setting(args, work, baseline), points, fastest

    def _measured(
        self, task: Task, measurer: Measurer, indices: Iterable[int], count: Callable[[], object]
    ) -> MeasuredConfigs:
        """Measure the configurations that the log does not know; append them to it."""
        wanted = list(dict.fromkeys(indices))
        refused = {index: rule for index in wanted if (rule := task.refusal(index))}
        trials = Trials(task, self._store, measurer.policy, SEED)
        try:
            trials.new_records()
            left = [i for i in wanted if i not in refused and i not in trials.by_index]
            for candidate, result in measurer.measure(_claimed(task, trials, left)):
                if trials.add(candidate.config.index, result) is not None:
                    count()
            trials.new_records()  # what others have measured meanwhile
        finally:
            trials.close()
        known = {index: trials.by_index[index] for index in wanted if index in trials.by_index}
        foreign = sum(not trials.comparable(record) for record in known.values())
        return MeasuredConfigs(known, refused, trials.best, foreign)

    def _note(self, task: Task, chosen: MeasuredConfigs) -> None:
        self._task = self._task or task
        self._record = next(iter(chosen.records.values()), self._record)
        self._foreign += chosen.foreign

    def subject(self) -> BenchmarkedTemplate:
        """Return the measured template and device; report records of the log from elsewhere."""
        assert self._task is not None
        task = self._task
        if self._foreign:
            print_error(
                f"{self._foreign} of the times are records of {self._store.path} with other "
                "versions, or taken otherwise: another --log has them measured anew"
            )
        device = environment.device(task.target) if self._record is None else self._record.device
        return BenchmarkedTemplate(
            task.workload.template,
            {name: value for name, value in task.args.items() if name not in self._varied},
            str(task.target),
            device_text(device or {}),
            "NumPy" if task.target.on_cpu else "CuPy",
            times_mean_nothing=task.target.kind == "cuda" and task.target.on_cpu,
        )


def _configurations(
    task: Task, wanted: Mapping[Key, Mapping[str, KnobValue]]
) -> tuple[dict[Key, int], dict[Key, str]]:
    """Return the configuration of each key, or the reason for its absence."""
    try:
        base = task.space.config(task.default_index).values
    except SpaceError as error:
        return {}, dict.fromkeys(wanted, str(error))
    found: dict[Key, int] = {}
    missing: dict[Key, str] = {}
    for key, knobs in wanted.items():
        try:
            found[key] = task.space.index_of({**base, **knobs})
        except SpaceError as error:
            missing[key] = str(error)
    return found, missing


def _baseline(task: Task, measurer: LocalMeasurer) -> tuple[float, ...] | None:
    """Return the times of the reference; None if there is none, or it cannot be timed.

    A Tile function's reference is made for exactness, so its time says nothing of NumPy.
    """
    if task.reference is None or names_tile(task.template_ref):
        return None
    try:
        return measurer.baseline()
    except AutotuneError as error:
        print_error(f"{task.workload}: no baseline: {error}")
        return None


@contextmanager
def _counting(size: str, total: int) -> Iterator[Callable[[], None]]:
    """Count the measured configurations on a terminal; the line is removed at the end."""
    done = 0

    def count() -> None:
        nonlocal done
        done += 1
        show(f"{size}: {done} of {total} measured")

    def show(text: str) -> None:
        if sys.stderr.isatty():
            note(f"\r\x1b[K{text}", end="")

    try:
        yield count
    finally:
        show("")
