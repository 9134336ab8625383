"""Computes loop features of many records of one task, in batches per structure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from autotune.dataset.task_finder import NO_LOOPS, NOT_IN_SPACE, REFUSED, TEMPLATE_CHANGED
from autotune.extract.autotvm08 import autotvm08_loops
from autotune.extract.to_loop_nest import LoopNestPlan, loop_nest, text_nest
from autotune.ir.visitor import is_raw
from autotune.task.task import Task
from autotune.trace.structure import Structure
from features import (
    CURVE_NAMES,
    LAYOUTS,
    LoopNest,
    Scratch,
    curve_matrix,
    itervar_columns,
    stack_columns,
    versioned,
)
from search_spaces import Column, IntArray, SpaceError

BATCHED = ("itervar", "curve")
"""Layouts that are computed for all configurations of a structure at once."""

LOOP_LAYOUTS = (*LAYOUTS, "curve")
"""Layouts that need loops. Those that are not batched are computed from the schedule of each
configuration separately, as in AutoTVM."""

CHUNK = 4096
"""Candidates evaluated at a time."""

Matrix = npt.NDArray[np.float32]


class StructureFeatures:
    """Features of the candidates of one structure, in several layouts next to each other.

    Parameters
    ----------
    structure : Structure
        With loops.
    layouts : sequence of str
        Of `BATCHED`.

    Attributes
    ----------
    names : tuple of str
        Names of the columns, with layout and version.
    knobs : tuple of str
        Columns of the space that are read.
    """

    def __init__(self, structure: Structure, layouts: Sequence[str]) -> None:
        assert structure.function is not None
        self._layouts = tuple(layouts)
        self._plan = LoopNestPlan(structure.function)
        self._nest_memory, self._memory = Scratch(), Scratch()
        self.knobs = self._plan.knobs
        self.names = _names(self._plan.outline(), layouts)

    def matrix(self, columns: Mapping[str, Column], n: int) -> Matrix:
        """Return the features of `n` candidates, float32 (n, len(names)).

        Parameters
        ----------
        columns : mapping of str to array (n,)
            Those of `knobs`.
        """
        nest = self._plan.nest(columns, self._nest_memory)
        parts = [_matrix(nest, n, layout, self._memory) for layout in self._layouts]
        return np.concatenate(parts, axis=1)


def single_features(structure: Structure, layouts: Sequence[str]) -> tuple[tuple[str, ...], Matrix]:
    """Return names and features, float32 (1, width), of a structure without knobs."""
    assert structure.function is not None
    names: list[str] = []
    parts = []
    for layout in layouts:
        if layout in BATCHED or structure.schedule is None:
            nest = loop_nest(structure.function)
        else:
            nest = text_nest(autotvm08_loops(structure.schedule, structure.tensors))
        names += _names(nest, [layout])
        parts.append(_matrix(nest, 1, layout, Scratch()))
    return tuple(names), np.concatenate(parts, axis=1)


def column_names(task: Task, layout: str) -> list[str]:
    """Return the names of the columns of all structures of a task, each once.

    For layouts that are not batched they are the names of one configuration per structure; for a
    template that cannot be traced those of the default configuration.
    """
    _ = task.space
    traced = [s for s in task.structures if s.function is not None and not is_raw(s.function)]
    if layout in BATCHED and not task.untraceable:
        return list(dict.fromkeys(n for s in traced for n in StructureFeatures(s, [layout]).names))
    examples = [task.default_index]
    if not task.untraceable:
        drawn = np.append(examples, task.space.sample(CHUNK, np.random.default_rng(0)))
        numbers, first = np.unique(task.classify(drawn), return_index=True)
        known = {structure.number for structure in traced}
        examples = [int(drawn[i]) for n, i in zip(numbers, first, strict=True) if int(n) in known]
    alone = [single_features(task.concrete_structure(index), [layout])[0] for index in examples]
    return list(dict.fromkeys(name for names in alone for name in names))


def _names(nest: LoopNest, layouts: Sequence[str]) -> tuple[str, ...]:
    return tuple(
        versioned(layout, name)
        for layout in layouts
        for name in (CURVE_NAMES if layout == "curve" else itervar_columns(nest, layout=layout)[0])
    )


def _matrix(nest: LoopNest, n: int, layout: str, scratch: Scratch) -> Matrix:
    if layout == "curve":
        return curve_matrix(nest, n).astype(np.float32)
    names, columns = itervar_columns(nest, layout=layout, arithmetic=scratch)
    return stack_columns(names, columns, n)


class ResolvedRecords:
    """The indices of a group's records in the present space of their task.

    Parameters
    ----------
    task : Task
    configs : sequence of str
        Knob values as JSON, n of them.
    fingerprints : sequence of str or None
        Fingerprint of the template that made each; None matches any.

    Attributes
    ----------
    indices : int64 (n,)
        Configuration of each record, -1 where `reasons` says why there is none.
    labels : int32 (n,)
        Number of its structure, -1 where there is none.
    reasons : list of str or None
        Why a record has no loops.

    Raises
    ------
    UsageError
        If the template fails whatever its knobs are.
    """

    def __init__(
        self, task: Task, configs: Sequence[str], fingerprints: Sequence[str | None]
    ) -> None:
        self._task = task
        find = lru_cache(maxsize=1 << 16)(self._index_of)
        self.indices: IntArray = np.fromiter(map(find, configs), np.int64, len(configs))
        self.reasons: list[str | None] = [
            NOT_IN_SPACE if index < 0 else None for index in self.indices.tolist()
        ]
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
        """Yield rows of one structure: all of a traced one, or those of one configuration."""
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
