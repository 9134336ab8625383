"""Runs a function's loops and conditions alone, to find guards that never make a difference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from autotune.ir.evaluate.interpreter import scalar_function
from autotune.ir.expr import BinaryOp, Broadcast, Call, Expr, Load, Ramp, Select, Var
from autotune.ir.ops import binary, const
from autotune.ir.stmt import For, If, PrimFunc, Stmt
from autotune.ir.visitor import Rewriter, child_stmts, free_vars, stmt_exprs, walk_expr
from autotune.lowering.guards.facts import conjuncts

#: A guard in a list: its text, and the loops around it.
Guard = str


class Guards:
    """The conditions of a function of constant sizes, and the outcomes that they have in a run.

    Attributes
    ----------
    outcomes : dict
        By condition: outcomes of each of its parts where the other parts hold.
    """

    def __init__(self, function: PrimFunc) -> None:
        self.outcomes: dict[Expr, list[set[bool]]] = {}
        self._where: dict[Expr, str] = {}
        self._compiled: dict[Expr, Any] = {}
        self._run(function.body, {}, ())

    def idle(self) -> list[Guard]:
        """Return the conditions of which a part never fails where the other parts hold."""
        return [
            f"{condition} in {self._where[condition]}"
            for condition, parts in self.outcomes.items()
            if any(False not in part for part in parts)
        ]

    def all(self) -> list[Guard]:
        """Return all conditions."""
        return [f"{condition} in {self._where[condition]}" for condition in self.outcomes]

    def _run(self, stmt: Stmt, values: dict[Var, int], loops: tuple[For, ...]) -> None:
        if isinstance(stmt, For):
            for value in range(self._value(stmt.extent, values)):
                self._run(stmt.body, {**values, stmt.var: value}, (*loops, stmt))
            return
        if isinstance(stmt, If):
            held = self._test(stmt.condition, values, loops)
            if held is None or any(held):
                self._run(stmt.then, values, loops)
            if (held is None or not all(held)) and stmt.orelse is not None:
                self._run(stmt.orelse, values, loops)
            return
        for condition in _choices(stmt):
            self._test(condition, values, loops)
        for inner in child_stmts(stmt):
            self._run(inner, values, loops)

    def _test(
        self, condition: Expr, values: dict[Var, int], loops: tuple[For, ...]
    ) -> list[bool] | None:
        """Note the outcome of a condition, lane by lane; None if it reads memory."""
        parts = list(conjuncts(condition))
        if any(isinstance(node, Load) for node in walk_expr(condition)):
            return None
        found = self.outcomes.setdefault(condition, [set() for _ in parts])
        self._where.setdefault(
            condition, ", ".join(f"{x.kind} {x.var.name} < {x.extent}" for x in loops)
        )
        lanes = []
        for lane in range(condition.lanes):
            held = [self._value(_Lane(lane).expr(part), values) for part in parts]
            for place, outcomes in enumerate(found):
                if all(h for k, h in enumerate(held) if k != place):
                    outcomes.add(bool(held[place]))
            lanes.append(all(held))
        return lanes

    def _value(self, expr: Expr, values: dict[Var, int]) -> int:
        variables = free_vars(expr)
        run = self._compiled.get(expr)
        if run is None:
            run = self._compiled[expr] = scalar_function([expr], variables)
        return int(run(*(values[v] for v in variables))[0])


def _choices(stmt: Stmt) -> Iterator[Expr]:
    for expr in stmt_exprs(stmt):
        for node in walk_expr(expr):
            if isinstance(node, Select) or (isinstance(node, Call) and node.name == "if_then_else"):
                yield node.children[0]


class _Lane(Rewriter):
    """Takes one lane of a vector expression."""

    def __init__(self, lane: int) -> None:
        super().__init__()
        self.lane = lane

    def visit_Ramp(self, node: Ramp) -> Expr:
        return binary("+", node.base, binary("*", node.stride, const(self.lane)))

    def visit_Broadcast(self, node: Broadcast) -> Expr:
        return node.value

    def visit_BinaryOp(self, node: BinaryOp) -> Expr:
        return binary(node.op, self.expr(node.a), self.expr(node.b))
