"""Features computed from loops: of all candidates of a structure, or of one candidate.

Itervar features are evaluated on arrays, and compiled once candidates are many. Compiled, they take
a tenth of the time and no interpreter, so that threads run side by side.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from autotune.errors import AutotuneError
from autotune.extract.feature_kernel import PITCH, ROWS, feature_kernel
from autotune.extract.to_loop_nest import LoopNestPlan, autotvm08_nest, loop_nest
from autotune.ir.stmt import PrimFunc
from autotune.ir.visitor import is_raw
from autotune.runtime.object_cache import ObjectCache
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
from search_spaces import Column, IntArray

Matrix = npt.NDArray[np.float64]
FloatMatrix = npt.NDArray[np.float32]

MANY = 1 << 14  # Candidates that take about as long on arrays as compiling does.

_log = logging.getLogger(__name__)


class StructureColumns:
    """Itervar features of the candidates of one structure.

    `function`: as `lower_schedule` returns it, knobs symbolic.
    """

    def __init__(self, function: PrimFunc) -> None:
        self._plan = LoopNestPlan(function)
        self._scratches: list[tuple[Scratch, Scratch]] = []
        self._kernel: _Kernel | None = None
        self._expected = 0
        #: Columns of the space that they are evaluated from.
        self.knobs = self._plan.knobs
        #: Names of all columns, in order.
        self.names = dict.fromkeys(itervar_columns(self._plan.outline())[0])

    def expect(self, n: int, names: Sequence[str]) -> None:
        """Take note of `n` more candidates to come; once they are many, compile these columns.

        What cannot be compiled, whatever the reason, stays on arrays. To be called by one thread
        at a time.
        """
        before, self._expected = self._expected, self._expected + n
        if before < MANY <= self._expected and self.knobs:
            own = tuple(name for name in names if name in self.names)
            try:
                self._kernel = _Kernel(self._plan, own)
            except (AutotuneError, MemoryError, OSError, RuntimeError) as error:  # LLVM's, too
                _log.debug("features are evaluated on arrays: %s", error)

    def fill(
        self,
        columns: Mapping[str, Column],
        names: Sequence[str],
        places: IntArray,
        out: FloatMatrix,
    ) -> None:
        """Write features of candidates into columns of a matrix. Safe in several threads.

        `columns`: mapping of str to array (n,): those of `knobs`.
        `names`: features to evaluate.
        `places`: int64 (len(names),): the columns that they go to.
        `out`: float32 (n, any)
        """
        kernel = self._kernel
        if kernel is not None and kernel.fill(columns, names, places, out):
            return
        try:
            scratches = self._scratches.pop()
        except IndexError:
            scratches = Scratch(), Scratch()
        nest = self._plan.nest(columns, scratches[0])
        found = itervar_columns(nest, names=names, arithmetic=scratches[1])[1]
        for place, column in zip(places, found, strict=True):
            out[:, place] = column
        self._scratches.append(scratches)


class _Kernel:
    """The compiled evaluation of some columns, `ROWS` candidates at a time."""

    def __init__(self, plan: LoopNestPlan, names: Sequence[str]) -> None:
        from autotune.runtime.cpu.llvm_compiler import compile_function  # loads LLVM

        # The text repeats nothing: the optimiser finds little, and takes most of the time.
        self._compiled = compile_function(
            feature_kernel(plan, names), level=0, cache=ObjectCache(None)
        )
        self._knobs = plan.knobs
        self._rows = {name: row for row, name in enumerate(names)}
        self._memories: list[tuple[Matrix, FloatMatrix, Callable[[], None]]] = []

    def fill(
        self,
        columns: Mapping[str, Column],
        names: Sequence[str],
        places: IntArray,
        out: FloatMatrix,
    ) -> bool:
        """Write features as `StructureColumns.fill` does; False if it cannot write all of them."""
        if not self._rows.keys() >= set(names):
            return False
        try:
            memory = self._memories.pop()
        except IndexError:
            taken = np.ones((len(self._knobs), PITCH))
            given = np.empty((len(self._rows) + 1, PITCH), np.float32)
            memory = taken, given, self._compiled.bind(taken, given)
        taken, given, run = memory
        inputs = [columns[name] for name in self._knobs]
        sources = _sliced(np.array([self._rows[name] for name in names], np.int64))
        targets, across, right = _sliced(places), out.T, True
        for start in range(0, len(out), ROWS):
            stop = min(start + ROWS, len(out))
            for row, column in zip(taken, inputs, strict=True):
                row[: stop - start] = column[start:stop]
            run()
            across[targets, start:stop] = given[sources, : stop - start]
            right = right and not given[-1, : stop - start].any()
        self._memories.append(memory)
        return right


def _sliced(places: IntArray) -> slice | IntArray:
    """Return consecutive places as a slice, which copies faster."""
    first = int(places[0])
    consecutive = np.array_equal(places, np.arange(first, first + len(places)))
    return slice(first, first + len(places)) if consecutive else places


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

    If features are computed one configuration at a time, one configuration of each structure is an
    example; of a template that cannot be traced, the default configuration is the only example.
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
