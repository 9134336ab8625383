"""Conditions that are equal for all lanes of a vector: statements under them need no mask.

For example ``x * 8 + lane < 40`` with 4 lanes: all 4 lanes are in the same group of 8 elements, so
the condition has one value for all. It is evaluated for the first lane only.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from autotune.ir import dtypes
from autotune.ir.expr import BinaryOp, Call, Const, Expr, Not, Var
from autotune.ir.ops import fold
from autotune.ir.visitor import substitute, walk_expr


class _Form(NamedTuple):
    """An integer of the form ``modulus * z + scale * lane + base``, z the same in all lanes."""

    modulus: int
    scale: int
    base: int


def uniform_condition(condition: Expr, var: Var, start: Expr, lanes: int) -> Expr:
    """Return a condition in which comparisons that are equal for all lanes use the first lane.

    `var`: the variable with the values start, ..., start + lanes - 1, one in each lane.
    """
    return _Asked(var, start, lanes).condition(condition)


class _Asked:
    def __init__(self, var: Var, start: Expr, lanes: int) -> None:
        self.var, self.start, self.lanes = var, start, lanes

    def condition(self, node: Expr) -> Expr:
        match node:
            case BinaryOp(op="and" | "or"):
                a, b = self.condition(node.a), self.condition(node.b)
                return node if a is node.a and b is node.b else fold(node.op, a, b)
            case Not(a=a) | Call(name="likely", children=(a,)):
                inner = self.condition(a)
                return node if inner is a else node.with_children((inner,))
            case BinaryOp(op="<" | "<=" | ">" | ">=") if dtypes.is_index(node.a.dtype):
                return substitute(node, {self.var: self.start}) if self._alike(node) else node
            case _:
                return node

    def _alike(self, node: BinaryOp) -> bool:
        """Whether the difference of both sides has the sign of ``modulus * z`` in all lanes."""
        a, b = self._form(node.a), self._form(node.b)
        if a is None or b is None:
            return False
        above = 1 if node.op in ("<=", ">") else 0  # a <= b means a - b - 1 < 0
        apart = _sum(a, _scaled(b, -1))._replace(base=a.base - b.base - above)
        return self._stays(apart, apart.modulus)

    def _stays(self, form: _Form, run: int) -> bool:
        """Whether all lanes are in the same group of numbers, whose size divides the modulus."""
        first = form.base % run if run else 0
        last = first + form.scale * (self.lanes - 1)
        return bool(run) and 0 <= last < run

    def _form(self, node: Expr) -> _Form | None:
        match node:
            case Const():
                return _Form(0, 0, int(node.value))
            case Var() if node is self.var:
                start = self._form(self.start)
                return start and start._replace(scale=start.scale + 1)
            case BinaryOp(op="+" | "-"):
                a, b = self._form(node.a), self._form(node.b)
                return a and b and _sum(a, b if node.op == "+" else _scaled(b, -1))
            case BinaryOp(op="*", b=Const() as c) | BinaryOp(op="*", a=Const() as c):
                other = self._form(node.a if node.b is c else node.b)
                return other and _scaled(other, int(c.value))
            case BinaryOp(op="//" | "%", b=Const() as c) if c.value > 0:
                return self._divided(node, int(c.value))
        return None if any(part is self.var for part in walk_expr(node)) else _Form(1, 0, 0)

    def _divided(self, node: BinaryOp, c: int) -> _Form | None:
        form = self._form(node.a)
        if form is None:
            return None
        run = math.gcd(form.modulus, c)
        if not self._stays(form, run):
            return None
        if node.op == "%":
            return _Form(run, form.scale, form.base % run)
        return _Form(1, 0, 0) if run < c else _Form(form.modulus // c, 0, form.base // c)


def _scaled(form: _Form, factor: int) -> _Form:
    return _Form(abs(form.modulus * factor), form.scale * factor, form.base * factor)


def _sum(a: _Form, b: _Form) -> _Form:
    return _Form(math.gcd(a.modulus, b.modulus), a.scale + b.scale, a.base + b.base)
