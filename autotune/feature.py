"""Features of schedules and of search spaces: the face of the feature extractors.

`get_itervar_feature`, `flatten_itervar_feature` and `get_flatten_name` describe one schedule loop
by loop, `get_curve_feature` in a fixed number of columns; `get_knob_feature` describes
configurations, `TaskFeatures` all candidates of a task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt

from autotune.ir.stmt import Function
from autotune.ir.visitor import is_raw
from autotune.lowering.autotvm08 import autotvm08_loops
from autotune.lowering.nest import lower_schedule
from autotune.lowering.to_loop_nest import LoopNestPlan, loop_nest, text_nest
from autotune.runtime.threads import in_threads
from autotune.schedule.schedule import Schedule
from autotune.task import Task
from autotune.te.tensor import Tensor
from features import (
    CURVE_NAMES,
    KnobSurvey,
    Number,
    Row,
    Scratch,
    curve_matrix,
    flatten_names,
    flatten_rows,
    itervar_columns,
    itervar_rows,
    knob_features,
    layout_named,
)
from search_spaces import Column, IntArray, Space

__all__ = [
    "TaskFeatures",
    "flatten_itervar_feature",
    "get_curve_feature",
    "get_curve_name",
    "get_flatten_name",
    "get_itervar_feature",
    "get_knob_feature",
]

FloatMatrix = npt.NDArray[np.float32]

CHUNK = 1 << 15
"""Candidates evaluated at a time: few enough for the cache, and enough for two threads, which hand
the interpreter to each other at every operation."""

MANY = 1 << 16
"""After so many candidates a program for the features that are asked for is compiled."""

MOST_THREADS = 2
"""Threads that evaluate at a time; more would only wait for the interpreter."""


def get_itervar_feature(
    schedule: Schedule, args: Sequence[Tensor], take_log: bool = False, layout: str = "itervar"
) -> list[Row]:
    """Return the features of every loop of a schedule, outer loops first.

    Parameters
    ----------
    schedule : Schedule
        Concrete: without knobs.
    args : sequence of Tensor
        Parameters of the function: inputs, then outputs.
    take_log : bool
        Apply log2(1 + x), mirrored for negative x, to all but the nest level and the one-hot code.
    layout : str
        ``"itervar"``, or ``"autotvm08"`` for what AutoTVM v0.8 returns: another order of the
        one-hot code, which has virtual threads too, no moduli, and no loops or stores that only
        set a reduction's accumulators.

    Returns
    -------
    list of tuple
        One row per loop: ``('_itervar_', name)``, ``('_attr_', length, nest_level, topdown,
        bottomup, *one_hot)``, ``('_arith_', add, mul, div)``, then per access ``(name, stride,
        mod, count, reuse, thread_count, thread_reuse)``.

    Raises
    ------
    LoweringError
        If the schedule cannot be lowered, or has knobs.
    FeatureError
        If the layout is unknown.
    """
    if layout_named(layout).initial_stores:
        nest = loop_nest(lower_schedule(schedule, args))
    else:
        nest = text_nest(autotvm08_loops(schedule, args))
    return itervar_rows(nest, take_log=take_log, layout=layout)


def flatten_itervar_feature(fea: Sequence[Row]) -> npt.NDArray[np.float64]:
    """Return all numbers of the rows of `get_itervar_feature` as one float64 array (width,)."""
    return flatten_rows(fea)


def get_flatten_name(fea: Sequence[Row]) -> list[str]:
    """Return the names of the numbers that `flatten_itervar_feature` returns, in its order."""
    return flatten_names(fea)


def get_curve_feature(
    schedule: Schedule, args: Sequence[Tensor], take_log: bool = False
) -> npt.NDArray[np.float64]:
    """Return the curve features of a schedule, float64 (width,), the same width for every schedule.

    Parameters
    ----------
    schedule, args
        As for `get_itervar_feature`.
    take_log : bool
        Apply log2(1 + x) to all of them.

    Raises
    ------
    LoweringError
        If the schedule cannot be lowered, or has knobs.
    """
    nest = loop_nest(lower_schedule(schedule, args))
    features: npt.NDArray[np.float64] = curve_matrix(nest, take_log=take_log)[0]
    return features


def get_curve_name() -> list[str]:
    """Return the names of the numbers that `get_curve_feature` returns, in its order."""
    return list(CURVE_NAMES)


def get_knob_feature(
    space: Space, indices: Sequence[int] | IntArray
) -> tuple[list[str], FloatMatrix]:
    """Return the knobs of configurations as numbers.

    Parameters
    ----------
    space : Space
    indices : sequence of int
        The configurations, n of them.

    Returns
    -------
    names : list of str
        As `features.KnobLayout` has them; the same for all configurations of the space.
    matrix : float32 (n, len(names))

    Raises
    ------
    SpaceError
        If an index lies outside the space.
    """
    survey = knob_survey(space)
    configs = [space.config(int(index)).values for index in indices]
    layout = survey.layout()
    return list(layout.names), layout.matrix(configs)


def knob_survey(space: Space) -> KnobSurvey:
    """Return a survey of all values that the knobs of a space take."""
    survey = KnobSurvey()
    for knob in space.knobs:
        for position in range(1 if knob.numeric else len(knob)):
            survey.add({knob.name: knob.value(position)})
    return survey


class TaskFeatures:
    """Features of all candidates of a task: its loop nests as columns, and its knobs.

    Structures share one layout by names; what a structure lacks is 0 in its rows. Columns that
    are constant in a sample of the space, or repeat another one, are left out. Candidates that
    are not traced have their knobs' columns, and NaN in the others.

    Parameters
    ----------
    task : Task
        Its space is explored.
    sample : int
        Candidates looked at to see which columns vary; always the same ones.
    repeats : bool
        Keep columns that repeat another one.

    Attributes
    ----------
    names : tuple of str
        Names of the columns: ``knob/NAME`` and those of `get_flatten_name`.
    """

    def __init__(self, task: Task, sample: int = 2048, repeats: bool = False) -> None:
        self._task = task
        self._knobs = _KnobColumns(task.space)
        self._structures: dict[int, _StructureColumns | None] = {}
        self._memories: list[_Memory] = []
        looked_at = np.sort(task.space.sample(sample, np.random.default_rng(0)))
        sources = (self._structure(number) for number in np.unique(task.classify(looked_at)))
        own = dict.fromkeys(name for source in sources if source for name in source.names)
        self.names: tuple[str, ...] = (*self._knobs.names, *own)
        self.names = tuple(_varying(self.names, self.matrix(looked_at), repeats))

    def matrix(
        self,
        indices: IntArray,
        names: Sequence[str] | None = None,
        out: FloatMatrix | None = None,
    ) -> FloatMatrix:
        """Return the features of the candidates at `indices`, float32 (n, len(names)).

        Columns are contiguous. Safe to call from several threads.

        Parameters
        ----------
        indices : int64 (n,)
        names : sequence of str, optional
            Only these columns, in this order; by default all. Nothing else is evaluated.
        out : float32 (n, len(names)), optional
            What to fill and return; fresh memory takes longer.
        """
        rows = np.asarray(indices, np.int64)
        wanted = self.names if names is None else tuple(names)
        places = {name: place for place, name in enumerate(wanted)}
        out = np.empty((len(rows), len(wanted)), np.float32, order="F") if out is None else out
        jobs = [partial(self._knobs.fill, rows, part, places, out) for part in _parts(len(rows))]
        numbers = self._task.classify(rows)
        for number in np.unique(numbers):
            where = np.flatnonzero(numbers == number)
            structure = self._structure(int(number))
            if structure is None:
                own = [place for name, place in places.items() if name not in self._knobs.names]
                for place in own:
                    out[where, place] = np.nan
                continue
            structure.prepare(tuple(n for n in places if n in structure.names), len(where))
            jobs += [
                partial(self._fill, structure, rows, where[part], places, out)
                for part in _parts(len(where))
            ]
        in_threads(jobs, MOST_THREADS if len(rows) > CHUNK else 1)
        return out

    def _fill(
        self,
        structure: _StructureColumns,
        rows: IntArray,
        where: IntArray,
        places: Mapping[str, int],
        out: FloatMatrix,
    ) -> None:
        """Write the loops' features of the candidates ``rows[where]``, all of one structure."""
        # Neighbours in one structure are written as a block, which is far faster.
        block = where[-1] - where[0] + 1 == len(where)
        target: slice | IntArray = slice(where[0], where[-1] + 1) if block else where
        wanted = tuple(name for name in places if name in structure.names)
        for name, place in places.items():
            if name not in structure.names and name not in self._knobs.names:
                out[target, place] = 0.0
        if not wanted:
            return
        columns = self._task.space.columns(rows[target], structure.knobs)
        try:
            memory = self._memories.pop()
        except IndexError:
            memory = _Memory()
        for name, column in zip(wanted, structure.evaluate(columns, wanted, memory), strict=True):
            out[target, places[name]] = column
        self._memories.append(memory)

    def _structure(self, number: int) -> _StructureColumns | None:
        """Return what evaluates a structure, None if it has no loops to evaluate."""
        if number not in self._structures:
            structure = self._task.structures[number] if number >= 0 else None
            function = None if structure is None else structure.function
            self._structures[number] = (
                None if function is None or is_raw(function) else _StructureColumns(function)
            )
        return self._structures[number]


def _parts(n: int) -> Iterator[slice]:
    """Yield slices of at most :data:`CHUNK` that cover `n` rows."""
    return (slice(start, min(start + CHUNK, n)) for start in range(0, n, CHUNK))


@dataclass(frozen=True)
class _Memory:
    """Where one thread evaluates."""

    nest: Scratch = field(default_factory=Scratch)
    columns: Scratch = field(default_factory=Scratch)


class _StructureColumns:
    """Itervar features of the candidates of one structure.

    Attributes
    ----------
    names : dict of str to None
        Names of all columns, in order.
    knobs : tuple of str
        Columns of the space that they are evaluated from.
    """

    def __init__(self, function: Function) -> None:
        self._plan = LoopNestPlan(function)
        self._part: tuple[tuple[str, ...], LoopNestPlan] = (), self._plan
        self._asked: tuple[tuple[str, ...], int] = (), 0
        self.knobs = self._plan.knobs
        self.names = dict.fromkeys(itervar_columns(self._plan.outline())[0])

    def prepare(self, names: tuple[str, ...], n: int) -> None:
        """Take note that the named features of `n` more candidates will be asked for.

        If they are many and the features few, a plan of what these are made of pays.
        """
        before, count = self._asked
        self._asked = names, (count if names == before else 0) + n
        if self._asked[1] >= MANY and self._part[0] != names and len(names) < len(self.names):
            plan = self._plan.only(lambda nest: itervar_columns(nest, names=names))
            self._part = names, plan

    def evaluate(
        self, columns: Mapping[str, Column], names: tuple[str, ...], memory: _Memory
    ) -> list[Number]:
        """Return the named features of the candidates; they hold until `memory` is used again."""
        made_for, plan = self._part
        if made_for != names:
            plan = self._plan
        nest = plan.nest(columns, memory.nest)
        return itervar_columns(nest, names=names, scratch=memory.columns)[1]


class _KnobColumns:
    """Knobs as columns: numbers as they are, and categories by `features.knob_features`.

    Attributes
    ----------
    names : dict of str to None
        Names of the columns, in order: numbers first.
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        self._categories = {
            column: len(knob)
            for knob in space.knobs
            if not knob.numeric
            for column in knob.column_names
        }
        numbers = [name for name in space.column_names if name not in self._categories]
        nothing = space.columns(np.zeros(0, np.int64))
        self._sources = {
            name: column
            for column in (*numbers, *self._categories)
            for name, _ in self._features({column: nothing[column]})
        }
        self.names = dict.fromkeys(self._sources)

    def fill(
        self, indices: IntArray, part: slice, places: Mapping[str, int], out: FloatMatrix
    ) -> None:
        """Write the columns that have a place in `out`, for the candidates of one part."""
        read = dict.fromkeys(self._sources[name] for name in places if name in self._sources)
        for name, column in self._features(self._space.columns(indices[part], read)):
            if name in places:
                out[part, places[name]] = column

    def _features(self, columns: Mapping[str, Column]) -> Iterator[tuple[str, Number | Column]]:
        """Yield the features that some columns of the space give, with their names."""
        for name, column in columns.items():
            if name not in self._categories:  # numbers without logarithms: all one to a tree
                yield f"knob/{name}", column
                continue
            found = knob_features({name: column}, {name: self._categories[name]})
            yield from ((f"knob/{own}", values) for own, values in zip(*found, strict=True))


def _varying(names: Sequence[str], matrix: FloatMatrix, repeats: bool) -> Iterator[str]:
    """Yield the names of the columns that vary, of several equal ones the first or all."""
    seen: set[bytes] = set()
    for place, name in enumerate(names):
        column = matrix[:, place]
        text = column.tobytes()
        if (repeats or text not in seen) and np.any(column != column[:1]):
            seen.add(text)
            yield name
