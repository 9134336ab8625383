"""Lengths, strides and decided conditions over symbolic knobs, as expressions for all candidates.

An index becomes a guarded sum, the canonical form for all knob values, whose text is then walked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autotune.ir import dtypes
from autotune.ir.expr import (
    COMPARISON,
    LOGIC,
    Binary,
    Buffer,
    Call,
    Cast,
    Expr,
    Load,
    Not,
    Select,
    Var,
)
from autotune.ir.ops import binary, logical_not
from autotune.ir.simplify import Simplifier
from autotune.ir.visitor import free_vars, substitute, walk_expr
from autotune.lowering.conditions import FALSE, ONE, TRUE, ZERO, is_knob_only
from autotune.lowering.guarded import NOTHING, UNKNOWN, Sum, Sums, TooManyTerms
from autotune.lowering.index_table import IndexTable
from autotune.lowering.strides import UNKNOWN_LENGTH, Touch
from autotune.lowering.symbolic_walk import symbolic_touches


class SymbolicAnalysis:
    """What is known about lengths, indices and conditions before the knobs have values."""

    def __init__(self) -> None:
        self._sums = Sums()
        self._simplifier = Simplifier()
        self._loops: dict[Var, Expr] = {}
        self._forms: dict[Expr, Sum] = {}
        self._touches: dict[Expr, Mapping[Var, Touch]] = {}

    # -- the analysis of one place -----------------------------------------------------------

    def enter(self, var: Var, extent: Expr) -> None:
        """Take note of a loop that opens here."""
        _, largest = self._sums.bounds(self.form(extent))
        if largest is not None:  # the variable of an empty loop is 0
            largest = self._sums.logic.normal(binary("max", largest, ONE))
        extents = self._sums.extents
        if var in extents and extents[var] is not largest:
            self._forms.clear()
            self._touches.clear()
        extents[var] = largest
        self._loops[var] = extent
        end = float("inf") if largest is None else self._sums.logic.bounds(largest)[1]
        self._simplifier.bind(var, 0, max(0.0, end - 1))

    def length(self, extent: Expr) -> int | Expr:
        """Return the number of iterations over knobs, `UNKNOWN_LENGTH` if a call decides it."""
        form = self.form(extent)
        return UNKNOWN_LENGTH if form.terms else form.base

    def touches(self, index: Expr) -> Mapping[Var, Touch]:
        """Return the touch of each variable in a flat index."""
        found = self._touches.get(index)
        if found is None:
            free = free_vars(index)
            loops = [(var, self._loops[var]) for var in free if var in self._loops]
            table = IndexTable(index, loops)
            found = self._expressed(index) if table.knobs else table.touches_at(())
            self._touches[index] = found = table.touches if found is None else found
        return found

    def _expressed(self, index: Expr) -> Mapping[Var, Touch] | None:
        """Return touches as expressions, None if there are too many cases."""
        try:
            form = self._sums.recombined(self.form(index), expand=True)
        except TooManyTerms:
            return None
        return symbolic_touches(form, self._sums)

    def value(self, node: Expr) -> Expr:
        """Return an integer with its loads in the order in which they are written simplified."""
        if isinstance(node, Load):
            return node
        unknown: dict[Expr, Expr] = {}
        known: dict[Expr, Expr] = {}
        same: dict[Expr, Expr] = {}
        for load in _outer_loads(node):
            stand_in = Load(Buffer("stand-in", load.dtype, ()), ZERO)
            unknown[load] = same.setdefault(self._simplifier.expr(load), stand_in)
            known.setdefault(unknown[load], load)
        return substitute(self._simplifier.expr(substitute(node, unknown)), known)

    def verdict(self, condition: Expr) -> bool | None:
        """Return the truth of a condition that holds for all knob values or for none."""
        always, never = self._verdicts(condition)
        if always is TRUE or never is TRUE:
            return always is TRUE
        return None

    # -- forms -------------------------------------------------------------------------------

    def form(self, node: Expr) -> Sum:
        """Return the guarded sum of an integer expression."""
        found = self._forms.get(node)
        if found is None:
            found = self._forms[node] = self._form(node)
        return found

    def _form(self, node: Expr) -> Sum:
        sums = self._sums
        if is_knob_only(node):
            return sums.constant(node)
        if isinstance(node, Var):
            return sums.variable(node)
        if not dtypes.is_index(node.dtype):  # data wraps
            parts = self._operands(node)
            return sums.opaque(_head(node), parts, modulus=_modulus(node, parts))
        if isinstance(node, Binary) and node.op not in COMPARISON and node.op not in LOGIC:
            return self._binary(node, self.form(node.a), self.form(node.b))
        if isinstance(node, Select):
            return self._choice(node)
        operands = self._operands(node)
        whole = isinstance(node, Cast) and dtypes.is_index(node.a.dtype) and len(operands) == 1
        return sums.opaque(_head(node), operands, sums.bounds(operands[0]) if whole else UNKNOWN)

    def _binary(self, node: Binary, a: Sum, b: Sum) -> Sum:
        sums = self._sums
        if node.op in ("//", "%", "min", "max") and _may_wrap(node):
            loaded = sums.opaque(node.op, [a, b], modulus=_modulus(node, [a, b]))
            if b.terms or node.op in ("min", "max"):
                return loaded
            by_one = sums.logic.compare("==", b.base, ONE)
            return sums.choose(by_one, a if node.op == "//" else NOTHING, loaded)
        if node.op in ("+", "-"):
            return sums.add(a, b, 1 if node.op == "+" else -1)
        if node.op == "*" and not (a.terms and b.terms):
            return sums.scaled(b, a.base) if not a.terms else sums.scaled(a, b.base)
        if node.op in ("//", "%") and not b.terms:
            if b.base is ONE:
                return a if node.op == "//" else NOTHING
            positive = sums.logic.compare(">=", b.base, ONE)
            if positive is TRUE:
                return sums.divided(node.op, a, b.base)
            if positive is not FALSE:
                opaque = sums.opaque(node.op, [a, b])
                return sums.choose(positive, sums.divided(node.op, a, b.base), opaque)
        if node.op in ("min", "max"):
            return self._extremum(node.op, a, b)
        return sums.opaque(node.op, [a, b])

    def _extremum(self, op: str, a: Sum, b: Sum) -> Sum:
        sums = self._sums
        below, above = sums.sign(sums.add(a, b, -1))
        ends = zip(sums.bounds(a), sums.bounds(b), strict=True)
        low, high = (None if x is None or y is None else binary(op, x, y) for x, y in ends)
        smaller, larger = (a, b) if op == "min" else (b, a)
        undecided = sums.choose(above, larger, sums.opaque(op, [a, b], (low, high)))
        return sums.choose(below, smaller, undecided)

    def _choice(self, node: Select) -> Sum:
        sums = self._sums
        always, never = self._verdicts(node.condition)
        true, false = self.form(node.true), self.form(node.false)
        undecided = sums.choose(never, false, sums.opaque(_head(node), self._operands(node)))
        return sums.choose(always, true, undecided)

    def _operands(self, node: Expr) -> list[Sum]:
        """Return the integers in an expression of any type, from left to right."""
        found: list[Sum] = []
        for child in node.children:
            found += [self.form(child)] if dtypes.is_integer(child.dtype) else self._operands(child)
        return found

    def _verdicts(self, node: Expr) -> tuple[Expr, Expr]:
        """Return the conditions over knobs under which a condition always holds, and never."""
        logic = self._sums.logic
        if is_knob_only(node):
            test = logic.normal(node)
            return test, logical_not(test)
        if isinstance(node, Not):
            always, never = self._verdicts(node.a)
            return never, always
        if isinstance(node, Call) and node.name == "likely":
            return self._verdicts(node.children[0])
        if isinstance(node, Binary) and node.op in LOGIC:
            (a, not_a), (b, not_b) = self._verdicts(node.a), self._verdicts(node.b)
            other = "or" if node.op == "and" else "and"
            return (
                logic.decided(binary(node.op, a, b)),
                logic.decided(binary(other, not_a, not_b)),
            )
        if isinstance(node, Binary) and dtypes.is_index(node.a.dtype) and not _may_wrap(node):
            return self._comparison(node)
        return FALSE, FALSE

    def _comparison(self, node: Binary) -> tuple[Expr, Expr]:
        sums = self._sums
        op, a, b = node.op, self.form(node.a), self.form(node.b)
        if op in (">", ">="):
            op, a, b = {">": "<", ">=": "<="}[op], b, a
        difference = sums.add(a, b, -1)
        if op in ("==", "!="):
            one = sums.constant(ONE)
            zero = sums.logic.all_of(sums.sign(difference))
            apart = binary(
                "or",
                sums.sign(sums.add(difference, one))[0],
                sums.sign(sums.add(difference, one, -1))[1],
            )
            apart = sums.logic.decided(apart)
            return (zero, apart) if op == "==" else (apart, zero)
        if op == "<":  # a <= b - 1
            difference = sums.add(difference, sums.constant(ONE))
        always, _ = sums.sign(difference)
        _, never = sums.sign(sums.add(difference, sums.constant(ONE), -1))
        return always, never


def _modulus(node: Expr, operands: Sequence[Sum]) -> Expr | None:
    """Return what `node` is a remainder by, if that is a constant or a knob."""
    if isinstance(node, Binary) and node.op == "%" and not operands[1].terms:
        return operands[1].base
    return None


def _outer_loads(node: Expr) -> list[Expr]:
    """Return the distinct loads in an expression that stand in no other load."""
    if isinstance(node, Load):
        return [node]
    return list(dict.fromkeys(load for child in node.children for load in _outer_loads(child)))


def _may_wrap(node: Expr) -> bool:
    """Whether loaded integers enter, of whose sums nothing is decided."""
    return any(isinstance(part, Load) for part in walk_expr(node))


def _head(node: Expr) -> object:
    """Return what an expression does with the integers in it."""
    own = [getattr(node, name, None) for name in ("op", "name", "value", "dtype")]
    buffer = id(node.buffer) if isinstance(node, Load) else None
    inside = ("#" if dtypes.is_integer(c.dtype) else _head(c) for c in node.children)
    return (type(node), *own, buffer, *inside)
