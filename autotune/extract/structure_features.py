"""Itervar features of the candidates of one structure: on arrays, and compiled once they are many.

Compiled, they take a tenth of the time and no interpreter, so that threads run side by side.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from autotune.errors import AutotuneError
from autotune.extract.feature_kernel import PITCH, ROWS, feature_kernel
from autotune.extract.to_loop_nest import LoopNestPlan
from autotune.ir.stmt import PrimFunc
from autotune.runtime.object_cache import ObjectCache
from features import Scratch, itervar_columns
from search_spaces import Column, IntArray

Matrix = npt.NDArray[np.float64]
FloatMatrix = npt.NDArray[np.float32]

MANY = 1 << 16  # Candidates that take about as long on arrays as compiling does.

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
