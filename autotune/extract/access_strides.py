"""Strides of loop variables in the flat index of an access, as AutoTVM finds them in the text.

The text is walked depth first, left to right, with a pending factor of 1. A product of a bare
variable and a constant sets the pending factor; a variable met for the first time takes it, and it
goes back to 1; a variable met again takes nothing. Divisions, remainders and outer factors are
transparent. The text is the simplified index, or its normal form for all knob values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from autotune.extract.index_forms import FALSE, TRUE, ZERO, Division, Form, Forms, Opaque
from autotune.ir.algebra.intervals import Intervals
from autotune.ir.expr import BinaryOp, Const, Expr, Var
from autotune.ir.ops import binary, const, select
from autotune.lowering.nest.regions import is_knob_only
from features import SYMBOLIC

NO_MODULUS = -1
_NO_MODULUS = const(NO_MODULUS)


Amount: TypeAlias = "int | Expr"  # A number, or what gives it for knob values.


class Touch(NamedTuple):
    """How an index depends on one variable: its stride, and the modulus it stands under."""

    stride: Amount
    mod: Amount


ABSENT = Touch(0, NO_MODULUS)


class FormAnalysis:
    """Reads a function as it is lowered, for all values of its knobs."""

    def __init__(self, intervals: Intervals | None = None) -> None:
        self._forms = Forms(intervals)
        self._known: dict[Expr, dict[Var, Touch]] = {}

    def enter(self, var: Var, extent: Expr) -> None:
        """Enter a loop."""
        if self._forms.enter(var, extent):
            self._known.clear()

    def length(self, extent: Expr) -> int | Expr:
        """Return the number of iterations over knobs, `SYMBOLIC` if more decides it."""
        return _amount(extent) if is_knob_only(extent) else SYMBOLIC

    def touches(self, index: Expr) -> Mapping[Var, Touch]:
        """Return the touches in the normal form of an index."""
        found = self._known.get(index)
        if found is None:
            walk = _FormWalk(self._forms)
            walk.visit(self._forms.of(index), TRUE, _NO_MODULUS)
            found = {var: walk.touch(var) for var in walk.places}
            self._known[index] = found
        return found


def _amount(number: Expr) -> int | Expr:
    return int(number.value) if isinstance(number, Const) else number


class _FormWalk:
    """The walk over a normal form, whose text has a factor at every variable, be it 1."""

    def __init__(self, forms: Forms) -> None:
        #: Where each variable may stand, as (condition, factor, modulus), in the order of the text.
        self.places: dict[Var, list[tuple[Expr, Expr, Expr]]] = {}
        self._forms = forms

    def visit(self, form: Form, here: Expr, mod: Expr) -> None:
        """Walk a form that stands in the text under the condition `here`, under a modulus."""
        for atom, scale in form.scales.items():
            written = binary("and", here, self._forms.logic.is_nonzero(scale))
            if written is FALSE:
                continue
            match atom:
                case Var():
                    self.places.setdefault(atom, []).append((written, scale, mod))
                case Division():
                    self.visit(atom.inside, written, atom.divisor if atom.op == "%" else mod)
                case Opaque():
                    for part in atom.parts:
                        self.visit(part, written, mod if atom.modulus is None else atom.modulus)

    def touch(self, var: Var) -> Touch:
        """Return the size of a variable's factor, and its modulus, where it stands first."""
        stride: Expr = ZERO
        mod: Expr = _NO_MODULUS
        for here, scale, modulus in reversed(self.places[var]):
            factor = scale
            if not self._forms.logic.is_nonnegative(scale):
                factor = binary("max", scale, binary("-", ZERO, scale))
            stride, mod = select(here, factor, stride), select(here, modulus, mod)
        moves = self._forms.moves(var)
        return Touch(_amount(select(moves, stride, ZERO)), _amount(select(moves, mod, _NO_MODULUS)))


class TextAnalysis:
    """Reads a simplified function in which every knob has its value; nothing is rewritten."""

    def enter(self, var: Var, extent: Expr) -> None:
        """Do nothing: the text is final."""

    def length(self, extent: Expr) -> int | Expr:
        """Return a constant extent."""
        return int(extent.value) if isinstance(extent, Const) else SYMBOLIC

    def touches(self, index: Expr) -> Mapping[Var, Touch]:
        """Return the touches in a simplified index, in order of first appearance.

        `mod` is the innermost constant modulus around a variable's first appearance, else
        `NO_MODULUS`.
        """
        walk = _TextWalk()
        walk.visit(index, NO_MODULUS)
        return walk.found


#: What is known about lengths and indices at one place of a function.
Analysis: TypeAlias = FormAnalysis | TextAnalysis


class _TextWalk:
    def __init__(self) -> None:
        self.found: dict[Var, Touch] = {}
        self.pending = 1

    def visit(self, node: Expr, mod: int) -> None:
        if isinstance(node, Var):
            if node not in self.found:
                self.found[node] = Touch(self.pending, mod)
                self.pending = 1
            return
        inner = mod
        value = _constant(node.b) if isinstance(node, BinaryOp) else None
        if isinstance(node, BinaryOp) and value is not None:
            if node.op == "*" and isinstance(node.a, Var):
                self.pending = value
            elif node.op == "%":
                inner = value
        for child in node.children:
            self.visit(child, inner)


def _constant(node: Expr) -> int | None:
    """Return the value of a constant; one too large for its type is written as a sum of parts."""
    if isinstance(node, Const):
        return int(node.value)
    if isinstance(node, BinaryOp) and node.op in ("+", "*"):
        a, b = _constant(node.a), _constant(node.b)
        if a is not None and b is not None:
            return a + b if node.op == "+" else a * b
    return None
