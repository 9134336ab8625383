"""Strides of loop variables in the flat index of an access, as AutoTVM reads them off the text.

The text is walked depth first, left to right, with a pending factor of 1. A product of a bare
variable and a constant sets the pending factor; a variable met for the first time takes it, and it
goes back to 1; a variable met again takes nothing. Divisions, remainders and outer factors are
transparent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from autotune.errors import LoweringError
from autotune.ir.expr import Binary, Const, Expr, Knob, Var
from autotune.ir.visitor import walk_expr

if TYPE_CHECKING:
    from autotune.lowering.index_table import Lookup

NO_MODULUS = -1
UNKNOWN_LENGTH = -1


Amount: TypeAlias = "int | Expr | Lookup"
"""A number, or what gives it for knob values."""


class Touch(NamedTuple):
    """How an index depends on one variable: its stride, and the modulus it stands under."""

    stride: Amount
    mod: Amount


ABSENT = Touch(0, NO_MODULUS)


class Analysis(Protocol):
    """What is known about lengths, indices and conditions at one place of a function."""

    def enter(self, var: Var, extent: Expr) -> None:
        """Take note of a loop that opens here."""

    def length(self, extent: Expr) -> int | Expr:
        """Return the number of iterations, `UNKNOWN_LENGTH` where only a call decides it."""

    def touches(self, index: Expr) -> Mapping[Var, Touch]:
        """Return the touch of each variable in a flat index."""

    def value(self, node: Expr) -> Expr:
        """Return a computed integer as its text goes."""

    def verdict(self, condition: Expr) -> bool | None:
        """Return the truth of a condition that always or never holds, else None."""


class TextAnalysis:
    """Reads a simplified function, in which every knob has its value, as it stands."""

    def enter(self, var: Var, extent: Expr) -> None:
        """Take note of nothing: the text is final."""

    def length(self, extent: Expr) -> int | Expr:
        """Return a constant extent."""
        knobs = [node for node in walk_expr(extent) if isinstance(node, Knob)]
        if knobs:
            raise LoweringError(
                f"a loop's extent `{extent}` depends on knob {knobs[0].name!r}, which has no value"
            )
        return int(extent.value) if isinstance(extent, Const) else UNKNOWN_LENGTH

    def touches(self, index: Expr) -> Mapping[Var, Touch]:
        """Return the touches in a simplified index."""
        return text_touches(index)

    def value(self, node: Expr) -> Expr:
        """Return the integer itself."""
        return node

    def verdict(self, condition: Expr) -> bool | None:
        """Return the value of a constant."""
        return bool(condition.value) if isinstance(condition, Const) else None


def text_touches(index: Expr) -> dict[Var, Touch]:
    """Return the touch of every variable in a simplified index, in order of first appearance.

    `mod` is the innermost constant modulus around the variable's first appearance, else
    `NO_MODULUS`.
    """
    walk = _TextWalk()
    walk.visit(index, NO_MODULUS)
    return walk.found


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
        value = _constant(node.b) if isinstance(node, Binary) else None
        if isinstance(node, Binary) and value is not None:
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
    if isinstance(node, Binary) and node.op in ("+", "*"):
        a, b = _constant(node.a), _constant(node.b)
        if a is not None and b is not None:
            return a + b if node.op == "+" else a * b
    return None
