"""The tree of decisions of a template's runs, and the leaf of each configuration.

A template is deterministic: after the same decisions it makes the same next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.errors import TracingError
from autotune.ir import dtypes
from autotune.ir.evaluate.column_programs import ColumnProgram
from autotune.ir.expr import Expr
from autotune.ir.ops import binary, logical_not, select
from autotune.trace.value_sources import Decision, KnobTable
from search_spaces import IntArray, Space

# Message for a template whose runs are not consistent.
NONDETERMINISTIC = (
    "it does not do the same twice for the same knobs; it may depend on its arguments and knobs "
    "only, not on time, chance or earlier calls, else its records are of no use"
)

Columns = Mapping[str, npt.NDArray[Any]]


class Node:
    """A decision with a child per outcome, a leaf with its structure, or not explored yet."""

    def __init__(self) -> None:
        self.expr: Expr | None = None  # the expression of the decision
        self.children: dict[int, Node] = {}  # by value of `expr`
        self.structure: int | None = None  # number of the structure that the path leads to
        self._program: ColumnProgram | None = None

    @property
    def explored(self) -> bool:
        """Whether some run reached this node."""
        return self.expr is not None or self.structure is not None

    def child(self, outcome: int) -> Node:
        """Return the child for an outcome of this decision."""
        return self.children.setdefault(outcome, Node())

    def outcomes(self, columns: Columns, rows: IntArray) -> IntArray:
        """Return the value of `expr` in the given rows; int64 (n,)."""
        assert self.expr is not None
        if self._program is None:
            self._program = ColumnProgram([self.expr])
        part = {name: columns[name][rows] for name in self._program.knobs}
        (values,) = self._program(part)
        return np.broadcast_to(np.asarray(values), rows.shape).astype(np.int64)


class DecisionTree:
    """Decisions of all runs so far."""

    def __init__(self) -> None:
        self.root = Node()

    def insert(self, decisions: Iterable[Decision], structure: int) -> None:
        """Add the path of a run.

        TracingError if an earlier run made the same decisions and then a different one.
        """
        node = self.root
        for expr, outcome in decisions:
            if node.structure is not None or (node.expr is not None and node.expr is not expr):
                self._differs()
            node.expr = expr
            node = node.child(outcome)
        if node.explored:
            self._differs()
        node.structure = structure

    def _differs(self) -> None:
        raise TracingError(NONDETERMINISTIC)

    def walk(self, columns: Columns, rows: int) -> Iterator[tuple[Node, IntArray]]:
        """Yield leaves and unexplored nodes, each with the rows that reach it.

        If an unexplored node is explored before the iteration continues, it is entered.
        """
        work = [(self.root, np.arange(rows, dtype=np.int64))]
        while work:
            node, here = work.pop()
            if not node.explored:
                yield node, here
            if node.structure is not None:
                yield node, here
            elif node.expr is not None:
                outcomes = node.outcomes(columns, here)
                if (outcomes == outcomes[0]).all():
                    work.append((node.child(int(outcomes[0])), here))
                    continue
                work.extend(
                    (node.child(int(value)), here[outcomes == value])
                    for value in np.unique(outcomes)[::-1]
                )

    def expression(self, leaf: Callable[[int], Expr], elsewhere: Expr | None) -> Expr | None:
        """Return the expression that is `leaf(structure)` where that structure applies.

        In unexplored parts it is `elsewhere`; give None if no configuration reaches them, which
        makes the expression shorter. The result is None if nothing is explored.
        """

        def build(node: Node) -> Expr | None:
            if node.structure is not None:
                return leaf(node.structure)
            if node.expr is None:
                return elsewhere
            found = {value: build(child) for value, child in node.children.items()}
            results = [result for result in found.values() if result is not None]
            if not results:
                return elsewhere
            total = elsewhere
            if total is None:
                total = max(results, key=lambda r: sum(r is other for other in results))
            for value, result in found.items():
                if result is not None and result is not total:
                    total = select(_is(node.expr, value), result, total)
            return total

        return build(self.root)


def _is(expr: Expr, value: int) -> Expr:
    if expr.dtype == dtypes.BOOL:
        return expr if value else logical_not(expr)
    return binary("==", expr, value)


class KnobColumns(dict[str, npt.NDArray[Any]]):
    """Columns of a space's rows by name of symbol, decoded when first read.

    Adds, to the columns of the space, the positions of knobs that are decided by position.

    table: definitions of the knobs.
    read: returns the space's column of a name.
    """

    def __init__(self, table: KnobTable, read: Callable[[str], npt.NDArray[Any]]) -> None:
        super().__init__()
        self._table = table
        self._read = read

    def __missing__(self, name: str) -> npt.NDArray[Any]:
        knob = self._table.owners[name]
        if name in knob.tables:
            column = self._read(name)
        else:
            values = knob.tables[knob.name]
            order = np.argsort(values)
            column = order[np.searchsorted(values[order], self._read(knob.name))]
        self[name] = column
        return column

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str)


def space_columns(table: KnobTable, space: Space, indices: IntArray) -> KnobColumns:
    """Return the columns of some indices of a space."""
    return KnobColumns(table, lambda name: space.columns(indices, [name])[name])
