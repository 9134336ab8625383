"""The interface through which index arithmetic evaluates other expressions."""

from __future__ import annotations

from typing import Protocol

from autotune.ir.expr import Expr, Load


class Evaluator(Protocol):
    """Evaluates any expression into an operand."""

    def value(self, expr: Expr) -> str:
        """Return the operand text of the value of `expr`."""
        ...

    def load_lane(self, load: Load, lane: int) -> str:
        """Return the operand text of one lane of a load."""
        ...
