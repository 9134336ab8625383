"""Features, programs and operation counts of a group of records, computed once and kept on disk.

The records are first found again in the present space of their task.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt

from autotune.builder import BuiltFunction
from autotune.dataset.scan_logs import Group
from autotune.errors import AutotuneError, UsageError
from autotune.extract.structure_features import (
    BATCHED,
    LOOP_LAYOUTS,
    FloatMatrix,
    StructureFeatures,
    single_features,
)
from autotune.ir.visitor import is_raw
from autotune.lowering.finalise import listing
from autotune.reuse.task_finder import (
    NO_LOOPS,
    NOT_IN_SPACE,
    REFUSED,
    TEMPLATE_CHANGED,
    TEMPLATE_FAILS,
    TaskFinder,
)
from autotune.task.task import Task
from features import FeatureError
from search_spaces import IntArray, SpaceError


class ResolvedRecords:
    """The indices of a group's records in the present space of their task.

    configs: knob values as JSON, n of them.
    fingerprints: fingerprint of the template that made each; None matches any.

    UsageError if the template fails whatever its knobs are.
    """

    def __init__(
        self, task: Task, configs: Sequence[str], fingerprints: Sequence[str | None]
    ) -> None:
        self._task = task
        find = lru_cache(maxsize=1 << 16)(self._index_of)
        # int64 (n,); configuration of each record, -1 if there is none (`reasons` has the reason).
        self.indices: IntArray = np.fromiter(map(find, configs), np.int64, len(configs))
        # Why a record has no loops.
        self.reasons: list[str | None] = [
            NOT_IN_SPACE if index < 0 else None for index in self.indices.tolist()
        ]
        # int32 (n,); number of its structure, -1 where there is none.
        self.labels = np.full(len(configs), -1, np.int32)
        known = np.flatnonzero(self.indices >= 0)
        self.labels[known] = self._labels(self.indices[known])
        for rows in self._alike(known):
            self._judge(rows, fingerprints)

    def refuse(self, row: int) -> None:
        """Mark a row whose plain numbers the template refuses."""
        self.reasons[row] = REFUSED
        self.indices[row], self.labels[row] = -1, -1

    def _index_of(self, config: str) -> int:
        try:
            return self._task.space.index_of(json.loads(config))
        except SpaceError:
            return -1

    def _labels(self, indices: IntArray) -> npt.NDArray[np.int32]:
        labels = self._task.classify(indices)
        if (labels < 0).any() and not self._task.untraceable:
            for index in np.unique(indices[labels < 0]):  # of a large space, seen only in part
                self._task.structure(int(index))
            labels = self._task.classify(indices)
        return labels

    def _alike(self, known: IntArray) -> Iterable[IntArray]:
        """Yield rows of one structure each; where nothing is traced, of one configuration each."""
        labels, indices = self.labels[known], self.indices[known]
        for label in np.unique(labels[labels >= 0]):
            yield known[labels == label]
        for index in np.unique(indices[labels < 0]):
            yield known[(labels < 0) & (indices == index)]

    def _judge(self, rows: IntArray, fingerprints: Sequence[str | None]) -> None:
        index = int(self.indices[rows[0]])
        now = self._task.fingerprints_of(index)["template"]
        function = self._task.structure(index).function
        reason = REFUSED if function is None else NO_LOOPS if is_raw(function) else None
        for row in rows.tolist():
            changed = fingerprints[row] not in (None, now)
            self.reasons[row] = TEMPLATE_CHANGED if changed else reason
            if self.reasons[row] is not None:
                self.indices[row], self.labels[row] = -1, -1


_log = logging.getLogger(__name__)


class ProgramText(TypedDict):
    """The program texts of a configuration; None where they cannot be made."""

    loops: str | None
    steps: list[Any] | None
    source_hash: str | None


def program_of(task: Task, index: int) -> ProgramText:
    """Return the program of a configuration.

    ``source_hash`` is 16 hexadecimal digits of the SHA-256 of the generated source. If the record's
    target names no processor, the source is for this processor, or for one with the vector width of
    the record.
    """
    found: ProgramText = {"loops": None, "steps": None, "source_hash": None}
    try:
        found["steps"] = task.steps_of(index)
        found["loops"] = str(listing(task.function(index))).rstrip()
        main = task.prepared_of(task.space.config(index).values).main
        source = BuiltFunction(main, task.target).source
        found["source_hash"] = hashlib.sha256(source.encode()).hexdigest()[:16]
    except AutotuneError as error:
        _log.info("%s, configuration %d: %s", task.workload, index, error)
    return found


CHUNK = 4096  # Candidates evaluated at a time.

_Single = tuple[tuple[str, ...], FloatMatrix]


class RecordBlock(NamedTuple):
    """Some records of a group, in order."""

    # float32 (n, width) or None: NaN in rows without features; None if there are none at all.
    features: FloatMatrix | None
    reasons: list[str | None]  # Why a record has none.
    programs: list[ProgramText | None]


class GroupFeatureStore:
    """Features, programs and operation count of one group; its task is freed afterwards.

    layouts: layouts of the features; those that need no loops are passed over.
    programs: whether programs are wanted.
    folder: where to put what is large.
    """

    def __init__(
        self,
        group: Group,
        finder: TaskFinder,
        layouts: Sequence[str],
        programs: bool,
        folder: Path,
    ) -> None:
        self.names: tuple[str, ...] = ()  # names of the features
        # Floating-point operations of one run, if the template says.
        self.flops: float | None = None
        # Why a record has no features, one of `task_finder.REASONS`.
        self.reasons: list[str | None] = [None] * group.records
        self._path = folder / f"{group.number}.f4"
        self._programs = folder / f"{group.number}.jsonl"
        self._layouts = [layout for layout in layouts if layout in LOOP_LAYOUTS]
        self._next = self._read = 0
        workload = group.workload
        task = finder.find(workload, group.target, group.vector_bytes)
        if isinstance(task, str):
            if self._layouts or programs:
                self.reasons = [task] * group.records
            return
        self.flops = _flops(task)
        if not self._layouts and not programs:
            return
        try:
            found = ResolvedRecords(task, group.configs, group.fingerprints)
            self.reasons = found.reasons
            if self._layouts:
                self._evaluate(task, found)
        except (AutotuneError, FeatureError) as error:
            _log.info("%s: %s", workload, error)
            self.reasons = [TEMPLATE_FAILS] * group.records
            self.names = ()
            return
        if programs:
            self._write_programs(task, found)

    def next_block(self, n: int) -> RecordBlock:
        """Return the computed facts of the next `n` records."""
        rows = slice(self._next, self._next + n)
        self._next += n
        reasons = self.reasons[rows]
        features = None
        if self.names:
            width = len(self.names)
            flat = np.fromfile(self._path, np.float32, n * width, offset=4 * rows.start * width)
            features = flat.reshape(n, width)
        programs: list[ProgramText | None] = [None] * n
        if self._programs.exists():
            with self._programs.open("rb") as lines:
                lines.seek(self._read)
                programs = [json.loads(lines.readline()) for _ in range(n)]
                self._read = lines.tell()
        return RecordBlock(features, reasons, programs)

    def _evaluate(self, task: Task, found: ResolvedRecords) -> None:
        singles = self._singles(task, found)
        batched = [layout for layout in self._layouts if layout in BATCHED]
        plans = {
            int(label): StructureFeatures(task.structures[label], batched)
            for label in np.unique(found.labels[found.labels >= 0])
            if batched
        }
        sources = [plan.names for plan in plans.values()] + [names for names, _ in singles.values()]
        self.names = tuple(dict.fromkeys(name for names in sources for name in names))
        shape = (len(found.indices), len(self.names))
        if 0 in shape:
            return
        _reserve(self._path, 4 * math.prod(shape))
        out = np.memmap(self._path, np.float32, "r+", shape=shape)
        places = {name: place for place, name in enumerate(self.names)}
        lacking = np.array([reason is not None for reason in found.reasons])
        out[lacking] = np.nan
        for row, (names, values) in singles.items():
            out[row, [places[name] for name in names]] = values[0]
        for label, plan in plans.items():
            own = [places[name] for name in plan.names]
            rows = np.flatnonzero(found.labels == label)
            for start in range(0, len(rows), CHUNK):
                part = rows[start : start + CHUNK]
                columns = task.space.columns(found.indices[part], plan.knobs)
                block = np.array(out[part])
                block[:, own] = plan.matrix(columns, len(part))
                out[part] = block
        out.flush()

    def _singles(self, task: Task, found: ResolvedRecords) -> dict[int, _Single]:
        """Return names and features, by row, of configurations that are computed one by one."""
        slow = [layout for layout in self._layouts if layout not in BATCHED]
        known: dict[int, _Single | None] = {}
        singles: dict[int, _Single] = {}
        for row, (index, label) in enumerate(zip(found.indices, found.labels, strict=True)):
            layouts = self._layouts if label < 0 else slow
            if index < 0 or not layouts:
                continue
            if index not in known:
                structure = task.concrete_structure(int(index))
                made = structure.function is not None
                known[index] = single_features(structure, layouts) if made else None
            features = known[index]
            if features is None:
                found.refuse(row)
            else:
                singles[row] = features
        return singles

    def _write_programs(self, task: Task, found: ResolvedRecords) -> None:
        with self._programs.open("w", encoding="utf-8") as lines:
            for index in found.indices.tolist():
                program = program_of(task, index) if index >= 0 else None
                lines.write(json.dumps(program) + "\n")


def _reserve(path: Path, size: int) -> None:
    """Allocate a file of `size` bytes: a mapped file on a full disk kills the process."""
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)


def _flops(task: Task) -> float | None:
    try:
        return task.flops
    except UsageError as error:
        _log.info("%s", error)
        return None
