"""Strides of an index for many candidates at once: `lowering.strides` on columns of numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from autotune.ir.expr import Binary, Call, Cast, Const, Expr, Knob, Not, Select, Var
from autotune.lowering.candidate_columns import (
    HardIndexError,
    Int,
    IntColumn,
    Mask,
    both,
    decided,
    most,
    where,
)
from autotune.lowering.column_sums import Sums
from autotune.lowering.column_terms import (
    NO_UPPER,
    Extremum,
    Hidden,
    Slot,
    Sum,
    add,
    constant,
)
from autotune.lowering.conditions import is_knob_only
from autotune.lowering.strides import NO_MODULUS

_UFUNCS: dict[str, np.ufunc] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "//": np.floor_divide, "%": np.remainder,
    "min": np.minimum, "max": np.maximum, "<": np.less, "<=": np.less_equal, ">": np.greater,
    ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal, "and": np.logical_and,
    "or": np.logical_or,
}  # fmt: skip


class KnobValues:
    """Expressions over knobs, evaluated on columns; each distinct one once."""

    def __init__(self, columns: Mapping[str, IntColumn]) -> None:
        self._columns = columns
        self._known: dict[Expr, Int] = {}

    def of(self, node: Expr) -> Int:
        """Return the values of an expression; HardIndexError for one of another kind."""
        found = self._known.get(node)
        if found is None:
            found = self._known[node] = self._of(node)
        return found

    def _of(self, node: Expr) -> Int:
        match node:
            case Const():
                return int(node.value)
            case Knob():
                return self._columns[node.name]
            case Binary(op="//" | "%") if np.any(np.less(self.of(node.b), 1)):
                raise HardIndexError
            case Binary() if node.op in _UFUNCS:
                value = _UFUNCS[node.op](self.of(node.a), self.of(node.b))
            case Not():
                value = np.logical_not(self.of(node.a))
            case Select():
                value = np.where(*(self.of(child) for child in node.children))
            case Cast():
                return self.of(node.a)
            case Call(name="gcd"):
                value = np.gcd(self.of(node.children[0]), self.of(node.children[1]))
            case _:
                raise HardIndexError
        return value if isinstance(value, np.ndarray) and value.ndim else value.item()


def touch_columns(
    index: Expr,
    loops: Sequence[tuple[Var, Expr]],
    columns: Mapping[str, IntColumn],
    n: int,
) -> tuple[IntColumn, IntColumn]:
    """Return the touches of one index for `n` candidates.

    Parameters
    ----------
    index : Expr
        A flat index over loop variables and knobs.
    loops : sequence of (Var, Expr)
        Loops around it, with their extents, outermost first.
    columns : mapping of str to int64 ndarray (n,)
        Values of the knobs.
    n : int

    Returns
    -------
    numbers : int64 ndarray (n, 2 * loops)
        Stride and modulus of each loop's variable.
    hard : int64 ndarray
        Rows in which they are not to be relied on.

    Raises
    ------
    HardIndexError
        If the index is of a kind that columns do not know.
    """
    forms = _Forms(columns)
    for var, extent in loops:
        forms.enter(var, extent)
    text = forms.sums.text(forms.of(index))
    walk = _Walk(n, [var for var, _ in loops])
    walk.visit(text, np.arange(n), np.full(n, NO_MODULUS))
    return walk.numbers, np.flatnonzero(np.broadcast_to(forms.sums.hard, n))


class _Forms:
    """Canonical sums of integer expressions for a batch of candidates."""

    def __init__(self, columns: Mapping[str, IntColumn]) -> None:
        self.sums = Sums({})
        self._values = KnobValues(columns)
        self._known: dict[Expr, Sum] = {}

    def enter(self, var: Var, extent: Expr) -> None:
        """Take note of a loop."""
        self.sums.extents[var] = most(self.sums.bounds(self.of(extent))[1], 1)

    def of(self, node: Expr) -> Sum:
        """Return the canonical sum of an integer expression."""
        found = self._known.get(node)
        if found is None:
            found = self._known[node] = self._of(node)
        return found

    def _of(self, node: Expr) -> Sum:
        sums = self.sums
        if is_knob_only(node):
            return constant(self._values.of(node))
        if isinstance(node, Var) and node in sums.extents:
            return sums.variable(node)
        if not isinstance(node, Binary):
            raise HardIndexError
        a, b = self.of(node.a), self.of(node.b)
        match node.op:
            case "+" | "-":
                return add(a, b, 1 if node.op == "+" else -1)
            case "*":
                return sums.product(a, b)
            case "min" | "max":
                return sums.extremum(node.op, a, b)
            case "//" | "%" if not b.slots:
                return (sums.quotient if node.op == "//" else sums.remainder)(a, b.base)
        raise HardIndexError


class _Walk:
    """The walk of `strides.text_touches` over the texts of many candidates.

    Attributes
    ----------
    numbers : int64 ndarray (n, 2 * variables)
        Stride and modulus of each variable; 0 and `NO_MODULUS` where it is absent.
    """

    def __init__(self, n: int, variables: Sequence[Var]) -> None:
        self._pending = np.ones(n, np.int64)
        self._place = {var: place for place, var in enumerate(variables)}
        self._met = np.zeros((len(variables), n), bool)
        self._strides = np.zeros((len(variables), n), np.int64)
        self._mods = np.full((len(variables), n), NO_MODULUS)

    @property
    def numbers(self) -> IntColumn:
        """Strides and moduli side by side."""
        both = np.stack([self._strides, self._mods], axis=1)
        return both.reshape(-1, both.shape[-1]).T

    def visit(self, text: Sum, rows: IntColumn, mods: IntColumn, inside: bool = False) -> None:
        """Walk a sum in some rows, which lie under the moduli `mods`.

        `inside` tells that a single negative term is multiplied by its scale, not subtracted.
        """
        slots = [_slot_at(slot, rows) for slot in text.slots]
        base = _at(text.base, rows)
        for place, here in _written(slots, len(rows)):
            slot, at, mod = _slot_at(slots[place], here), rows[here], mods[here]
            if slot.upper is not NO_UPPER:
                mod = np.where(np.equal(slot.upper, NO_UPPER), mod, slot.upper)
            if isinstance(slot.atom, Hidden):
                self.visit(slot.atom.sum, at, mod, inside=True)
            elif isinstance(slot.atom, Extremum):
                for part in slot.atom.parts:
                    self.visit(part, at, mod)
            else:
                factor = slot.scale
                if np.min(factor) < 0:
                    alone: Mask = inside
                    for other in (base, *(s.scale for i, s in enumerate(slots) if i != place)):
                        alone = both(alone, decided(np.equal(_at(other, here), 0)))
                    factor = where(alone, factor, np.abs(factor))
                plain = np.equal(slot.upper, NO_UPPER) & np.equal(slot.lower, 1)
                self._meet(self._place[slot.atom], at, np.where(plain, factor, 1), mod)

    def _meet(self, place: int, rows: IntColumn, factor: IntColumn, mod: IntColumn) -> None:
        pending = np.where(np.not_equal(factor, 1), factor, self._pending[rows])
        new = ~self._met[place, rows]
        first = rows[new]
        self._strides[place, first] = pending[new]
        self._mods[place, first] = mod[new]
        self._met[place, first] = True
        self._pending[rows] = np.where(new, 1, pending)


def _at(value: Int, rows: IntColumn) -> Int:
    return value[rows] if isinstance(value, np.ndarray) else value


def _slot_at(slot: Slot, rows: IntColumn) -> Slot:
    return Slot(slot.atom, *(_at(number, rows) for number in slot[1:]))


def _written(slots: Sequence[Slot], n: int) -> Iterator[tuple[int, IntColumn]]:
    """Yield slots in the order of the text, each with the rows in which it is written next.

    Ranks are places in the text.
    """
    alive = [np.broadcast_to(np.not_equal(slot.scale, 0), n) for slot in slots]
    for line in range(len(slots)):
        for place, slot in enumerate(slots):
            if isinstance(slot.rank, np.ndarray):
                here = np.flatnonzero(alive[place] & (slot.rank == line))
            elif slot.rank == line:
                here = np.flatnonzero(alive[place])
            else:
                continue
            if len(here):
                yield place, here
