"""Lowers reductions across threads: within warps first, then through shared memory.

For 256 threads along x, each warp of 32 threads combines its values. The first thread of each warp
stores the result to shared memory, and one warp combines the 8 parts. Threads that are not
consecutive all store their values, and each thread combines those of its group.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from autotune.errors import LoweringError
from autotune.ir.expr import Buffer, Const, Expr, Load, Var
from autotune.ir.name_supply import NameSupply
from autotune.ir.ops import binary, const, row_major
from autotune.ir.stmt import (
    For,
    If,
    LoopKind,
    Stmt,
    Store,
    ThreadReduce,
    WarpReduce,
    allocated,
    seq,
)
from autotune.ir.tuple_stores import store_together

#: Threads of a warp.
WARP = 32

_AXES = ("threadIdx.x", "threadIdx.y", "threadIdx.z")


@dataclass(frozen=True, eq=False)
class _Axis:
    """One axis of threads: its variable, the number of threads, and how many of them take part."""

    var: Var
    whole: int
    own: int


def lower_thread_reduction(
    reduction: ThreadReduce,
    variables: Mapping[str, Var],
    extents: Mapping[str, Expr],
    own: Mapping[str, Expr],
    virtual: Mapping[Var, Expr],
    names: NameSupply,
) -> Stmt:
    """Return the statements of a reduction across threads of a kernel.

    `reduction`: a reduction over some of the kernel's axes.
    `variables`, `extents`: variables and extents of the kernel's thread axes.
    `own`: lengths of the loops around the reduction; fewer threads than the kernel has may take
    part.
    `virtual`: variables and lengths of the loops over virtual threads around the reduction.
    `names`: names of buffers; the names of new buffers are added.

    Raises LoweringError if the number of threads is not known.
    """
    axes = [
        _Axis(variables[tag], _number(tag, extents[tag]), _number(tag, own.get(tag, const(1))))
        for tag in _AXES
        if tag in variables
    ]
    lengths = {var: _number(var.name, extent) for var, extent in virtual.items()}
    axes += [_Axis(var, length, length) for var, length in lengths.items()]
    return _Written(reduction, [axis for axis in axes if axis.whole > 1], names).stmt()


def _number(tag: str, extent: Expr) -> int:
    if not isinstance(extent, Const):
        raise LoweringError(
            f"a reduction across threads: {tag} has the extent `{extent}`, which is not known when "
            "the kernel is compiled; bind a loop of constant length"
        )
    return int(extent.value)


class _Written:
    """Lowers one reduction."""

    def __init__(self, reduction: ThreadReduce, axes: list[_Axis], names: NameSupply) -> None:
        self.reduction = reduction
        self.names = names
        across = set(reduction.threads)
        self.over = [axis for axis in axes if axis.var in across]
        self.others = [axis for axis in axes if axis.var not in across]
        self.count = math.prod(axis.own for axis in self.over)
        self.width = self._width(axes)
        self.has_neighbours = any(axis is axes[0] for axis in self.over)

    def _width(self, axes: list[_Axis]) -> int:
        """Return the number of consecutive threads whose values a warp reduction combines."""
        first = axes[: len(self.over)]
        in_a_row = all(a is b for a, b in zip(first, self.over, strict=True))
        if not in_a_row or any(axis.own != axis.whole for axis in self.over[:-1]):
            return 1
        return math.gcd(WARP, self.count, self._distance())

    def _distance(self) -> int:
        """Return the distance between the first threads of two consecutive groups."""
        return math.prod(axis.whole for axis in self.over)

    def stmt(self) -> Stmt:
        """Return the statements."""
        reduction, zero = self.reduction, const(0)
        results = reduction.results
        if self.count == 1:
            return store_together(self._stores(reduction.operands), self.names.unused)
        if self.width == 1:
            return self._by_way_of_parts(None, reduction.operands)
        in_step = WarpReduce(reduction.combiner, reduction.operands, results, zero, self.width)
        if self.width == self.count:
            return in_step
        return self._by_way_of_parts(in_step, tuple(Load(result, zero) for result in results))

    def _by_way_of_parts(self, before: Stmt | None, values: tuple[Expr, ...]) -> Stmt:
        """Share one value per `width` threads, and combine the values of the group."""
        count = self.count // self.width
        member, group = _place(self.over), _place(self.others)
        size = (const(count * self._groups()),)
        parts = [
            Buffer(self.names.unused(f"{result.name}.parts"), result.dtype, size, "shared")
            for result in self.reduction.results
        ]
        place = self._part(group, binary("//", member, self.width))
        share: Stmt = seq(
            *(Store(part, place, value) for part, value in zip(parts, values, strict=True))
        )
        if self.width > 1:
            share = If(binary("==", binary("%", member, self.width), 0), share)
        for axis in self.others:
            if axis.own == 1:
                share = If(binary("==", axis.var, 0), share)
        body = seq(*(() if before is None else (before,)), share, self._combined(parts, group))
        return allocated(parts, body)

    def _groups(self) -> int:
        return math.prod(axis.own for axis in self.others)

    def _part(self, group: Expr, number: Expr) -> Expr:
        """Return the index of a part of a group: next to the parts of neighbouring threads."""
        if self.has_neighbours:
            return binary("+", binary("*", group, self.count // self.width), number)
        return binary("+", binary("*", number, self._groups()), group)

    def _combined(self, parts: list[Buffer], group: Expr) -> Stmt:
        count = self.count // self.width
        zero, combiner, results = const(0), self.reduction.combiner, self.reduction.results
        if self.width > 1 and WARP % count == 0 and self._distance() % count == 0:
            index = self._part(group, binary("%", _place(self.over), count))
            operands = tuple(Load(part, index) for part in parts)
            return WarpReduce(combiner, operands, results, zero, count)
        var = Var("part")
        index = self._part(group, var)
        values = combiner.combine(
            [Load(result, zero) for result in results], [Load(part, index) for part in parts]
        )
        step = store_together(self._stores(values), self.names.unused)
        begin = self._stores(combiner.identity)
        return seq(*begin, For(var, const(count), LoopKind.SERIAL, step))

    def _stores(self, values: tuple[Expr, ...]) -> list[Store]:
        pairs = zip(self.reduction.results, values, strict=True)
        return [Store(result, const(0), value) for result, value in pairs]


def _place(axes: list[_Axis]) -> Expr:
    """Return the number of a thread along some axes; the first axis runs fastest."""
    numbers = [axis.var if axis.own > 1 else 0 for axis in reversed(axes)]
    return row_major(numbers, [axis.own for axis in reversed(axes)])
