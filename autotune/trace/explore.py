"""From structures to a search space: finds the paths through a template and their constraints.

In a space of up to two million, every configuration is followed through the decisions. In a larger
space a fixed sample is followed, and other structures are found when they are needed. The default
configuration is found with little tracing (`default_structure`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from autotune.errors import InstantiationError
from autotune.ir.evaluate.column_programs import ColumnProgram
from autotune.ir.expr import BinaryOp, Const, Expr
from autotune.ir.ops import binary, const
from autotune.trace.decision_tree import Columns, KnobColumns, Node, space_columns
from autotune.trace.structure import Structure
from autotune.trace.tracer import Structures
from search_spaces import Constraint, IntArray, Space

MAX_CLASSIFIED = 2_000_000  # Spaces up to this size are explored completely.
SAMPLE = 1 << 16  # Size of the sample of a larger space.
MAX_STRUCTURES = 256  # Structures found in advance.

# Most runs with plain numbers that only discover knobs, if tracing would take too long.
MAX_MET = 256

EACH_VALUE = 4096  # Number of values of a knob that a sample certainly contains.
CHECKED = 8  # Configurations that are compared with runs of the template on plain numbers.

CHUNK = 1 << 15

UNKNOWN = -1  # Label of a configuration whose structure has not been traced.


def explore(structures: Structures) -> Space:
    """Return the search space of a template, with the errors of its structures as constraints.

    UsageError if the template makes a mistake that no configuration avoids.
    """
    structures.of({})
    met: set[Node] = set()
    while True:
        space = Space(structures.knobs)
        complete = _follow(structures, space, met)
        if structures.untraceable:
            _discover_knobs(structures, space)
        if len(structures.knobs) == len(space.knobs):
            break
    if not structures.untraceable:
        _check(structures, space)
    if structures.untraceable:
        return space
    structures.explored = complete or structures.tree.root.structure is not None
    return Space(space.knobs, _constraints(structures, None if complete else const(True)))


def _check(structures: Structures, space: Space) -> None:
    """Compare some configurations with the template run on their plain numbers."""
    drawn = np.random.default_rng(1).integers(len(space), size=CHECKED, dtype=np.int64)
    for index in np.unique(drawn):
        structures.check(space.config(int(index)).values)


def classify(structures: Structures, space: Space, indices: IntArray) -> npt.NDArray[np.int32]:
    """Return the structure number of each index, UNKNOWN if it is not traced; int32 (n,)."""
    labels = np.full(len(indices), UNKNOWN, dtype=np.int32)
    if structures.untraceable:
        return labels
    for start in range(0, len(indices), CHUNK):
        part = indices[start : start + CHUNK]
        columns = space_columns(structures.table, space, part)
        for node, rows in structures.tree.walk(columns, len(part)):
            if node.structure is not None:
                labels[start + rows] = node.structure
    return labels


def _follow(structures: Structures, space: Space, met: set[Node]) -> bool:
    """Trace new paths of the configurations; return whether all paths are explored.

    It stops at a knob that the space does not have, or if the template cannot be traced. For paths
    beyond `MAX_STRUCTURES` only the knobs are discovered; they are added to `met`.
    """
    complete = whole = len(space) <= MAX_CLASSIFIED
    indices = np.arange(len(space), dtype=np.int64) if whole else _sample(space)
    for start in range(0, len(indices), CHUNK):
        if structures.untraceable or structures.tree.root.structure is not None:
            break
        part = indices[start : start + CHUNK]
        columns = space_columns(structures.table, space, part)
        for node, rows in structures.tree.walk(columns, len(part)):
            if node.explored:
                continue
            values = space.config(int(part[rows[0]])).values
            if len(structures.known) < MAX_STRUCTURES:
                structures.trace(values)
            else:
                complete = False
                if node not in met and len(met) < MAX_MET:
                    met.add(node)
                    structures.discover_knobs(values)
            if structures.untraceable or len(structures.knobs) != len(space.knobs):
                return False
    return complete


def _sample(space: Space, size: int = SAMPLE, each: int = EACH_VALUE) -> IntArray:
    """Return random configurations, and ones in which each value of each knob occurs.

    A path that only one value of a knob takes is then found, even if other knobs have many values:
    that value occurs together with the defaults and with random values.
    """
    rng = np.random.default_rng(0)
    defaults = np.array([knob.default for knob in space.knobs], dtype=np.int64)
    drawn = [space.positions(rng.integers(len(space), size=size, dtype=np.int64))]
    for place, knob in enumerate(space.knobs):
        values = np.unique(np.linspace(0, len(knob) - 1, min(len(knob), each)).astype(np.int64))
        random = space.positions(rng.integers(len(space), size=len(values), dtype=np.int64))
        for others in (np.tile(defaults, (len(values), 1)), random):
            changed = others.copy()
            changed[:, place] = values
            drawn.append(changed)
    return np.unique(space.indices_of(np.concatenate(drawn)))


def _discover_knobs(structures: Structures, space: Space) -> None:
    """Run a template that cannot be traced a few times, to discover its knobs."""
    found = _sample(space, 32, 16)
    for index in np.random.default_rng(0).permutation(found)[:MAX_MET]:
        structures.discover_knobs(space.config(int(index)).values)
        if len(structures.knobs) != len(space.knobs):
            return


def _constraints(structures: Structures, elsewhere: Expr | None) -> list[Constraint]:
    """Return errors and requirements of structures as rules over the columns of the space.

    For unknown structures each rule is `elsewhere`; None if there are none.
    """
    true = const(True)
    rules: dict[str, dict[int, Expr]] = {}
    for structure in structures.known:
        if structure.error:
            rules.setdefault(structure.error, {})[structure.number] = const(False)
        for condition, message in structure.requirements:
            own = rules.setdefault(message, {})
            before = own.get(structure.number, true)
            own[structure.number] = binary("and", before, condition)
    constraints = []
    for message, conditions in rules.items():
        expr = structures.tree.expression(partial(_get, conditions), elsewhere)
        if expr is not None and not (isinstance(expr, Const) and expr.value):
            rule = _Rule(structures, expr, conditions)
            constraints.append(
                Constraint(message, rule, reads=rule.reads, detail=rule.detail, miss=rule.miss)
            )
    return constraints


def _get(conditions: dict[int, Expr], structure: int) -> Expr:
    return conditions.get(structure, const(True))


class _Rule:
    """A condition over symbols as a predicate over the columns of a space.

    expr: the condition in all configurations.
    conditions: the condition of each structure that has one.
    """

    def __init__(self, structures: Structures, expr: Expr, conditions: dict[int, Expr]) -> None:
        self._structures = structures
        self._conditions = conditions
        self._program = ColumnProgram([expr])

    def __call__(self, columns: Columns) -> npt.NDArray[np.bool_] | bool:
        (verdict,) = self._program(self._read(columns))
        return verdict if isinstance(verdict, np.ndarray) else bool(verdict)

    def _read(self, columns: Columns) -> KnobColumns:
        return KnobColumns(self._structures.table, columns.__getitem__)

    @property
    def reads(self) -> tuple[str, ...]:
        """Columns of the space that it reads."""
        owners = self._structures.table.owners
        names = (
            name if name in owners[name].tables else owners[name].name
            for name in self._program.knobs
        )
        return tuple(dict.fromkeys(names))

    def detail(self, columns: Columns) -> str:
        """Return by how much one configuration breaks the rule: "2048 > 1024"; may be empty."""
        read = self._read(columns)
        for node, _ in self._structures.tree.walk(read, 1):
            condition = None if node.structure is None else self._conditions.get(node.structure)
            return "" if condition is None else _excess(condition, read)
        return ""

    def miss(self, columns: Columns, n: int) -> npt.NDArray[np.float64]:
        """Return by what share of the limit each of `n` configurations breaks it, float64 (n,)."""
        read, shares = self._read(columns), np.zeros(n)
        for node, rows in self._structures.tree.walk(read, n):
            condition = None if node.structure is None else self._conditions.get(node.structure)
            for one in _comparisons(condition):
                program = ColumnProgram([one.a, one.b])
                left, right = map(
                    np.asarray, program({name: read[name][rows] for name in program.knobs})
                )
                above = left - right if one.op in ("<", "<=") else right - left
                shares[rows] += np.maximum(above, 0) / np.maximum(np.abs(right), 1)
        return shares


_BROKEN = {"<=": ">", ">=": "<", "<": ">=", ">": "<="}


def _comparisons(condition: Expr | None) -> Iterator[BinaryOp]:
    """Yield the comparisons of a conjunction."""
    if isinstance(condition, BinaryOp) and condition.op == "and":
        yield from _comparisons(condition.a)
        yield from _comparisons(condition.b)
    elif isinstance(condition, BinaryOp) and condition.op in _BROKEN:
        yield condition


def _excess(condition: Expr, read: KnobColumns) -> str:
    """Return the two sides of a comparison that is false, with their values."""
    for one in _comparisons(condition):
        values = ColumnProgram([one, one.a, one.b])(read)
        holds, *sides = (int(np.asarray(value).item()) for value in values)
        if not holds:
            return f"{sides[0]} {_BROKEN[one.op]} {sides[1]}"
    return ""


#: Largest distance in knob steps from illegal defaults, and configurations that are tried.
_FARTHEST: Final = 3
_MAX_TRIED: Final = 16


def default_structure(structures: Structures) -> Structure | None:
    """Return the structure of the knobs' defaults, or of the nearest legal values around.

    The template runs with plain numbers. Only if the defaults break a rule, it is traced with
    symbols: then the rules of the traced paths are known for all values.

    InstantiationError if the template fails for the defaults, other than by a rule about knobs.

    Returns None if no tried configuration around the defaults is legal.
    """
    found = structures.alone({})
    if found.error and not isinstance(found.cause, InstantiationError):
        raise InstantiationError(found.error) from found.cause
    if not found.refusal({}):
        return found
    structures.of({})
    # Untraced paths are refused, unless no traced one has rules.
    space = Space(structures.knobs, _constraints(structures, const(False)))
    defaults = np.array([[knob.default for knob in space.knobs]], dtype=np.int64)
    near = space.by_distance(int(space.indices_of(defaults)[0]), _FARTHEST)
    for index in itertools.islice(near, _MAX_TRIED):
        found = structures.alone(space.config(index).values)
        if not found.refusal({}):
            return found
    return None
