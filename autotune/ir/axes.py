"""Iteration variables (axes) and reduction combiners, shared by te, schedules and lowering."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from autotune.errors import IRError
from autotune.ir.expr import Expr, Operators, Var


class AxisKind(StrEnum):
    """The range of an axis."""

    SPATIAL = "spatial"
    REDUCE = "reduce"
    THREAD = "thread"
    SCAN = "scan"


@dataclass(frozen=True, eq=False)
class Range:
    """The integers min, min + 1, ..., min + extent - 1."""

    min: Expr
    extent: Expr


class IterVar(Operators):
    """An axis: a variable with its range and its kind."""

    __slots__ = ("dom", "kind", "thread_tag", "var")

    def __init__(self, var: Var, dom: Range | None, kind: AxisKind, thread_tag: str = "") -> None:
        #: The variable that indices are written with.
        self.var = var
        #: Its range; None for axes whose range lowering infers.
        self.dom = dom
        #: Spatial, reduction, thread or scan axis.
        self.kind = kind
        #: "blockIdx.x", "threadIdx.y", "vthread", ...; empty for other axes.
        self.thread_tag = thread_tag

    @property
    def name(self) -> str:
        """Name of the variable."""
        return self.var.name

    def __expr__(self) -> Expr:
        return self.var

    def __repr__(self) -> str:
        return f"<{self.kind} axis {self.name}>"


def same_index(a: IterVar, b: IterVar) -> bool:
    """Whether two thread axes are the same index: the hardware has one index per tag.

    Each virtual thread made by ``te.thread_axis("vthread")`` is a separate index.
    """
    return a is b or (a.thread_tag == b.thread_tag and a.thread_tag != "vthread")


class Combiner:
    """A commutative, associative reduction of one or several values at once.

    `name`: name in messages and fingerprints.
    `lhs`, `rhs`: operands: the accumulator and the new value, one variable per result.
    `result`, `identity`: the combination over `lhs` and `rhs`, and the neutral element.
    """

    __slots__ = ("identity", "lhs", "name", "result", "rhs")

    def __init__(
        self,
        name: str,
        lhs: Sequence[Var],
        rhs: Sequence[Var],
        result: Sequence[Expr],
        identity: Sequence[Expr],
    ) -> None:
        if not len(lhs) == len(rhs) == len(result) == len(identity):
            raise IRError(f"reducer {name!r}: operands, results and identities differ in number")
        self.name = name
        self.lhs, self.rhs = tuple(lhs), tuple(rhs)
        self.result, self.identity = tuple(result), tuple(identity)

    def combine(self, acc: Sequence[Expr], value: Sequence[Expr]) -> tuple[Expr, ...]:
        """Return the combination of accumulator and value expressions."""
        from autotune.ir.visitor import substitute

        mapping = dict(zip((*self.lhs, *self.rhs), (*acc, *value), strict=True))
        return tuple(substitute(result, mapping) for result in self.result)
