"""Features of whole search spaces: columns of all candidates, evaluated in chunks and threads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from threading import RLock

import numpy as np
import numpy.typing as npt

from autotune.extract.structure_features import StructureColumns
from autotune.ir.stmt import PrimFunc
from autotune.ir.visitor import is_raw
from autotune.lowering.finalise import analyse
from autotune.system.available_cpus import run_in_threads
from autotune.task.task import Task
from features import Number, knob_features
from search_spaces import Column, IntArray, Space

FloatMatrix = npt.NDArray[np.float32]

# Candidates evaluated at a time: few enough for the cache, and enough for two threads, which hand
# the interpreter to each other at every operation.
CHUNK = 1 << 15

MAX_THREADS = 2  # Threads that evaluate at a time; more would only wait for the interpreter.


class TaskFeatures:
    """Features of all candidates of a task: its loop nests as columns, and its knobs.

    Structures share one layout by names; what a structure lacks is 0 in its rows. Columns that
    are constant in a sample of the space, or repeat another one, are left out. Candidates that
    are not traced have their knobs' columns, and NaN in the others.

    `task`: its space is explored.
    `sample`: candidates looked at to see which columns vary; always the same ones.
    `repeats`: keep columns that repeat another one.
    """

    def __init__(self, task: Task, sample: int = 2048, repeats: bool = False) -> None:
        self._task = task
        self._knobs = _KnobColumns(task.space)
        self._repeats = repeats
        self._structures: dict[int, StructureColumns | None] = {}
        self._names: tuple[str, ...] | None = None
        self._planning = RLock()  # plans are made of expressions: by one thread at a time
        self._looked_at = np.sort(task.space.sample(sample, np.random.default_rng(0)))
        numbers, counts = np.unique(task.classify(self._looked_at), return_counts=True)
        shares = counts / len(self._looked_at)
        self._shares = dict(zip(numbers.tolist(), shares.tolist(), strict=True))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns: ``knob/NAME``, then the names of `get_flatten_name`."""
        with self._planning:
            if self._names is None:
                self._names = self._find_names()
            return self._names

    def _find_names(self) -> tuple[str, ...]:
        sources = map(self._structure, self._shares)
        own = dict.fromkeys(name for source in sources if source for name in source.names)
        names = (*self._knobs.names, *own)
        matrix = self._matrix(self._looked_at, names, names)
        return tuple(_varying(names, matrix, self._repeats))

    def preparations(self) -> Iterator[None]:
        """Plan one structure of the sample at each step, and last of all see which columns vary."""
        for number in self._shares:
            with self._planning:
                self._structure(number)
            yield
        _ = self.names
        yield

    def prepare(self, n: int) -> None:
        """Compile the evaluation of features for `n` candidates from all parts of the space.

        Where that does not pay it is left.
        """
        names = self.names
        with self._planning:
            for number, share in self._shares.items():
                structure = self._structure(number)
                if structure is not None:
                    structure.expect(int(n * share), names)

    def matrix(
        self,
        indices: IntArray,
        names: Sequence[str] | None = None,
        out: FloatMatrix | None = None,
    ) -> FloatMatrix:
        """Return the features of the candidates at `indices`, float32 (n, len(names)).

        Columns are contiguous. Safe to call from several threads.

        `indices`: int64 (n,)
        `names`: only these columns, in this order; by default all. Nothing else is evaluated.
        `out`: float32 (n, len(names)): what to fill and return; fresh memory takes longer.
        """
        wanted = self.names if names is None else tuple(names)
        return self._matrix(np.asarray(indices, np.int64), wanted, self.names, out)

    def _matrix(
        self,
        rows: IntArray,
        wanted: Sequence[str],
        usual: Sequence[str],
        out: FloatMatrix | None = None,
    ) -> FloatMatrix:
        """As `matrix`, for `wanted` columns; `usual` ones will be asked for again."""
        places = {name: place for place, name in enumerate(wanted)}
        out = np.empty((len(rows), len(wanted)), np.float32, order="F") if out is None else out
        jobs = [partial(self._knobs.fill, rows, part, places, out) for part in _parts(len(rows))]
        numbers = self._task.classify(rows)
        for number in np.flatnonzero(np.bincount(numbers + 1)) - 1:
            where = np.flatnonzero(numbers == number)
            with self._planning:
                structure = self._structure(int(number))
                if structure is not None:
                    structure.expect(len(where), usual)
            if structure is None:
                for name, place in places.items():
                    if name not in self._knobs.names:
                        out[where, place] = np.nan
                continue
            jobs += [
                partial(self._fill, structure, rows, where[part], places, out)
                for part in _parts(len(where))
            ]
        run_in_threads(jobs, MAX_THREADS if len(rows) > CHUNK else 1)
        return out

    def _fill(
        self,
        structure: StructureColumns,
        rows: IntArray,
        where: IntArray,
        places: Mapping[str, int],
        out: FloatMatrix,
    ) -> None:
        """Write the loops' features of the candidates ``rows[where]``, all of one structure."""
        # Neighbours in one structure are written as a block, which is far faster.
        block = where[-1] - where[0] + 1 == len(where)
        target: slice | IntArray = slice(where[0], where[-1] + 1) if block else where
        own = {name: place for name, place in places.items() if name in structure.names}
        for name, place in places.items():
            if name not in own and name not in self._knobs.names:
                out[target, place] = 0.0
        if not own:
            return
        columns = self._task.space.columns(rows[target], structure.knobs)
        to = np.array(list(own.values()), np.int64)
        if block:
            structure.fill(columns, tuple(own), to, out[target])
            return
        found = np.empty((len(where), len(own)), np.float32, order="F")
        structure.fill(columns, tuple(own), np.arange(len(own)), found)
        for place, column in zip(to, found.T, strict=True):
            out[where, place] = column

    def _structure(self, number: int) -> StructureColumns | None:
        """Return the columns of a structure, None if it has no loops to evaluate."""
        if number not in self._structures:
            structure = self._task.structures[number] if number >= 0 else None
            function = None if structure is None else structure.function
            self._structures[number] = (
                None
                if function is None or is_raw(function)
                else StructureColumns(at_likely_sizes(function))
            )
        return self._structures[number]


def at_likely_sizes(function: PrimFunc) -> PrimFunc:
    """Return a function whose open sizes have the values that they are likely to have."""
    likely = {size: size.likely for size in function.sizes if size.likely is not None}
    return analyse(function, likely) if likely else function


def _parts(n: int) -> Iterator[slice]:
    """Yield slices of at most :data:`CHUNK` that cover `n` rows."""
    return (slice(start, min(start + CHUNK, n)) for start in range(0, n, CHUNK))


class _KnobColumns:
    """Knobs as columns: numbers as they are, and categories by `features.knob_features`."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._categories = space.categories
        numbers = [name for name in space.column_names if name not in self._categories]
        nothing = space.columns(np.zeros(0, np.int64))
        self._sources = {
            name: column
            for column in (*numbers, *self._categories)
            for name, _ in self._features({column: nothing[column]})
        }
        #: Names of the columns, in order: numbers first.
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
