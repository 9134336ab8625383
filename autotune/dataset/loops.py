"""Features that come from loops, of many records of one task, in batches per structure."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.dataset.origins import NOT_IN_SPACE, REFUSED, TEMPLATE_CHANGED
from autotune.lowering.nest import lower_schedule
from autotune.lowering.to_loop_nest import LoopNestPlan, loop_nest
from autotune.task import Task
from autotune.trace.structures import Structure
from features import (
    CURVE_NAMES,
    LAYOUTS,
    LoopNest,
    Scratch,
    curve_matrix,
    itervar_columns,
    layout_named,
    stack_columns,
    versioned,
)
from search_spaces import Column, IntArray, SpaceError

_log = logging.getLogger(__name__)

LOOP_LAYOUTS = (*LAYOUTS, "curve")
"""Layouts that are read off loops; the others need none."""

CHUNK = 4096
"""Candidates evaluated at a time."""

Matrix = npt.NDArray[np.float32]


class StructureFeatures:
    """Features of the candidates of one structure, in some layouts side by side.

    Parameters
    ----------
    structure : Structure
        With a function.
    layouts : sequence of str
        Of `LOOP_LAYOUTS`.

    Attributes
    ----------
    names : tuple of str
        Names of the columns, with layout and version.
    """

    def __init__(self, structure: Structure, layouts: Sequence[str]) -> None:
        self._layouts = tuple(layouts)
        self._structure = structure
        self._plans: dict[bool, LoopNestPlan] = {}
        self._memory = {name: Scratch() for name in ("nest", *layouts)}
        self.names = tuple(
            versioned(layout, name) for layout in layouts for name in self._names(layout)
        )

    def matrix(self, columns: Mapping[str, Column], n: int) -> Matrix:
        """Return the features of `n` candidates, float32 (n, len(names)).

        Parameters
        ----------
        columns : mapping of str to array (n,)
            The structure's knobs, at least those of `knobs`.
        """
        parts = []
        for layout in self._layouts:
            nest = self._plan(layout).nest(columns, self._memory["nest"])
            parts.append(_matrix(nest, n, layout, self._memory[layout]))
        return np.concatenate(parts, axis=1)

    @property
    def knobs(self) -> tuple[str, ...]:
        """Columns of the space that are read."""
        return tuple(dict.fromkeys(k for plan in self._plans.values() for k in plan.knobs))

    def _names(self, layout: str) -> Sequence[str]:
        return _layout_names(self._plan(layout).outline(), layout)

    def _plan(self, layout: str) -> LoopNestPlan:
        initialise = _has_initial_stores(layout)
        if initialise not in self._plans:
            self._plans[initialise] = LoopNestPlan(_function(self._structure, initialise))
        return self._plans[initialise]


def single_features(structure: Structure, layouts: Sequence[str]) -> tuple[tuple[str, ...], Matrix]:
    """Return names and features, float32 (1, width), of a structure without knobs."""
    names: list[str] = []
    parts = []
    for layout in layouts:
        nest = loop_nest(_function(structure, _has_initial_stores(layout)))
        names += [versioned(layout, name) for name in _layout_names(nest, layout)]
        parts.append(_matrix(nest, 1, layout, Scratch()))
    return tuple(names), np.concatenate(parts, axis=1)


def column_names(task: Task, layouts: Sequence[str]) -> list[str]:
    """Return the names of the columns of all structures of a task, each once.

    Of a template that cannot be traced they are those of its default configuration.
    """
    _ = task.space
    if task.untraceable:
        return list(single_features(task.structure(task.default_index), layouts)[0])
    traced = [structure for structure in task.structures if structure.function is not None]
    return list(
        dict.fromkeys(name for s in traced for name in StructureFeatures(s, layouts).names)
    )


def _has_initial_stores(layout: str) -> bool:
    return layout not in LAYOUTS or layout_named(layout).initial_stores


def _function(structure: Structure, initialise: bool) -> Any:
    if initialise or structure.schedule is None:
        return structure.function
    return lower_schedule(structure.schedule, structure.tensors, initialise=False)


def _layout_names(nest: LoopNest, layout: str) -> Sequence[str]:
    return CURVE_NAMES if layout == "curve" else itervar_columns(nest, layout=layout)[0]


def _matrix(nest: LoopNest, n: int, layout: str, scratch: Scratch) -> Matrix:
    if layout == "curve":
        return curve_matrix(nest, n).astype(np.float32)
    names, columns = itervar_columns(nest, layout=layout, scratch=scratch)
    return stack_columns(names, columns, n)


class Resolved:
    """Where the records of a group stand in today's space of their task.

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
        refused = self._task.structure(index).function is None
        for row in rows.tolist():
            if fingerprints[row] not in (None, now):
                self.reasons[row] = TEMPLATE_CHANGED
            elif refused:
                self.reasons[row] = REFUSED
            if self.reasons[row] is not None:
                self.indices[row], self.labels[row] = -1, -1
