"""Features in every layout that is read off loops: of all candidates of a structure, or of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from autotune.extract.structure_features import FloatMatrix
from autotune.extract.to_loop_nest import LoopNestPlan, autotvm08_nest, loop_nest
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
    itervar_matrix,
    versioned,
)
from search_spaces import Column

BATCHED = ("itervar", "curve")  # Layouts that all configurations of a structure have at once.

# Layouts that are read off loops; the others need none. What is not batched is read off the
# schedule of each configuration on its own, as AutoTVM does.
LOOP_LAYOUTS = (*LAYOUTS, "curve")

SAMPLE = 4096  # Candidates that show the structures of a task whose layout is not batched.


class StructureFeatures:
    """Features of the candidates of one structure, in several layouts next to each other.

    `structure`: with loops.
    `layouts`: of `BATCHED`.
    """

    def __init__(self, structure: Structure, layouts: Sequence[str]) -> None:
        assert structure.function is not None
        self._layouts = tuple(layouts)
        self._plan = LoopNestPlan(structure.function)
        self._nest_memory, self._memory = Scratch(), Scratch()
        #: Columns of the space that are read.
        self.knobs = self._plan.knobs
        #: Names of the columns, with layout and version.
        self.names = _names(self._plan.outline(), layouts)

    def matrix(self, columns: Mapping[str, Column], n: int) -> FloatMatrix:
        """Return the features of `n` candidates, float32 (n, len(names)).

        `columns`: mapping of str to array (n,): those of `knobs`.
        """
        nest = self._plan.nest(columns, self._nest_memory)
        parts = [_matrix(nest, n, layout, self._memory) for layout in self._layouts]
        return np.concatenate(parts, axis=1)


def single_features(
    structure: Structure, layouts: Sequence[str]
) -> tuple[tuple[str, ...], FloatMatrix]:
    """Return names and features, float32 (1, width), of a structure without knobs."""
    assert structure.function is not None
    names: list[str] = []
    parts = []
    for layout in layouts:
        if layout in BATCHED or structure.schedule is None:
            nest = loop_nest(structure.function)
        else:
            nest = autotvm08_nest(structure.schedule, structure.tensors)
        names += _names(nest, [layout])
        parts.append(_matrix(nest, 1, layout))
    return tuple(names), np.concatenate(parts, axis=1)


def column_names(task: Task, layout: str) -> list[str]:
    """Return the names of the columns of all structures of a task, each once.

    Where configurations are looked at one by one they are those of one of each structure, and of a
    template that cannot be traced those of the default configuration.
    """
    _ = task.space
    traced = [s for s in task.structures if s.function is not None and not is_raw(s.function)]
    if layout in BATCHED and not task.untraceable:
        return list(dict.fromkeys(n for s in traced for n in StructureFeatures(s, [layout]).names))
    examples = [task.default_index]
    if not task.untraceable:
        drawn = np.append(examples, task.space.sample(SAMPLE, np.random.default_rng(0)))
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


def _matrix(nest: LoopNest, n: int, layout: str, scratch: Scratch | None = None) -> FloatMatrix:
    if layout == "curve":
        return curve_matrix(nest, n).astype(np.float32)
    return itervar_matrix(nest, n, layout=layout, scratch=scratch)[1]
