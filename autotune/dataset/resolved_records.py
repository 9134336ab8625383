"""Records of one task, found again in its present space."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from autotune.dataset.task_finder import NO_LOOPS, NOT_IN_SPACE, REFUSED, TEMPLATE_CHANGED
from autotune.ir.visitor import is_raw
from autotune.task.task import Task
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
        # int64 (n,); configuration of each record, -1 where `reasons` says why there is none.
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
