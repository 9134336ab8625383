"""Strided loads of neighbouring unrolled iterations, as consecutive loads and shuffles.

    unrolled (c, 0, 4)                         r0 = X[ramp(0, 1, 4)]  ...  r3 = X[ramp(3*n, 1, 4)]
      Y[...] = X[ramp(c, n, 4)]          ->    Y[...] = lane 0 of r0, r1, r2, r3
                                               ...

Iteration c needs element c of each row, so all iterations together need whole rows: the columns of
a matrix are made of its rows by a network of shuffles of two vectors (Eklundh, "A Fast Computer
Method for Matrix Transposing", 1972). Rows that follow one another at once, of 2, 4 or 8 elements,
are loaded in whole vectors. What is loaded is what the iterations load, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from autotune.codegen.llvm.function_builder import FunctionBuilder
from autotune.codegen.llvm.index.index_arithmetic import IndexArithmetic
from autotune.codegen.llvm.index.linear_forms import Linear, constant
from autotune.codegen.llvm.integer_vectors import IntegerVectors, constants
from autotune.codegen.llvm.llvm_types import llvm_type
from autotune.codegen.llvm.memory.addresses import ALIGNMENT
from autotune.codegen.llvm.memory.loads_stores import LoadsStores, whole_lanes
from autotune.ir import dtypes
from autotune.ir.expr import Const, Expr, Load, Var
from autotune.ir.stmt import For, Seq, Stmt, Store
from autotune.ir.visitor import walk_expr

#: Distances of lanes at which all elements in between are loaded.
_NEAR: Final = (2, 4, 8)

#: Longest distance at which shuffles of whole vectors are faster than rows.
_FEW: Final = 5

#: Sizes of elements of which vectors may have any number.
_SIZES: Final = (4, 8)


@dataclass(eq=False, repr=False)
class TransposedLoads:
    """Loads the rows of unrolled loops before these, and keeps their columns for the iterations."""

    builder: FunctionBuilder
    index: IndexArithmetic
    vectors: IntegerVectors
    memory: LoadsStores
    _loads: dict[Stmt, tuple[Load, ...]] = field(init=False, default_factory=dict)

    def prepare(self, loop: For) -> None:
        """Load in advance the columns that an unrolled loop of constant length reads."""
        if not isinstance(loop.extent, Const) or not _is_straight(loop.body):
            return
        count = int(loop.extent.value)
        if loop.body not in self._loads:
            self._loads[loop.body] = tuple(dict.fromkeys(_vector_loads(loop.body)))
        for load in self._loads[loop.body] if count > 1 else ():
            self._columns(load, loop.var, count)

    def _columns(self, load: Load, var: Var, count: int) -> None:
        place = self._place(load.index, var, 0)
        if place is None:
            return
        base, offsets = place
        if not isinstance(offsets, range):
            return
        buffer, lanes, stride = load.buffer, load.lanes, offsets.step
        scalar = llvm_type(load.dtype)
        size = dtypes.itemsize(load.dtype)
        if size in _SIZES and max(count, lanes) * size <= ALIGNMENT:
            far = abs(stride) > max(count - 1, *_NEAR)
            far |= _FEW < abs(stride) < max(_NEAR) and count <= abs(stride)
        else:  # LLVM takes long to compile other vectors of odd length
            whole = count == whole_lanes(count) <= lanes == whole_lanes(lanes)
            far = whole and abs(stride) > max(count, *_NEAR)
        near_by = stride in _NEAR and lanes == whole_lanes(lanes)
        if not (far or near_by) or not self._is_steady(load.index, var, count, place):
            return
        if far:
            starts = [base + constant(o) for o in offsets]
            rows = [self.memory.load_consecutive(buffer, at, count) for at in starts]
            for i, column in enumerate(self._transposed(rows, count, scalar)):
                self.memory.keep(buffer, starts[0] + constant(i), offsets, column)
            return
        for first in range(0, count - stride + 1, stride):
            starts = [constant(first + lanes * n) for n in range(stride)]
            near = [self.memory.load_consecutive(buffer, base + n, lanes) for n in starts]
            for i, column in enumerate(self._taken_apart(near, lanes, scalar), first):
                self.memory.keep(buffer, base + constant(i), offsets, column)

    def _is_steady(
        self, index: Expr, var: Var, count: int, place: tuple[Linear, Sequence[int]]
    ) -> bool:
        """Whether each iteration loads one element after the one before it."""
        base, offsets = place
        for i in range(1, count):
            other = self._place(index, var, i)
            if other is None or other[1] != offsets:
                return False
            if other[0].key != base.key or other[0].const != base.const + i:
                return False
        return True

    def _taken_apart(self, parts: list[str], lanes: int, scalar: str) -> list[str]:
        """Return the columns of rows as long as there are vectors, which follow one another."""
        if len(parts) == 1:
            return parts
        pairs = list(zip(parts[::2], parts[1::2], strict=True))
        even, odd = (
            self._taken_apart(
                [self._shuffle(a, b, lanes, scalar, range(n, 2 * lanes, 2)) for a, b in pairs],
                lanes,
                scalar,
            )
            for n in (0, 1)
        )
        return [column for pair in zip(even, odd, strict=True) for column in pair]

    def _place(self, index: Expr, var: Var, i: int) -> tuple[Linear, Sequence[int]] | None:
        """Return where iteration i loads: the first lane, and the distances of all lanes."""
        with self.builder.region():
            self.index.env[var] = constant(i)
            return self.vectors.offsets(index)

    def _transposed(self, rows: list[str], count: int, scalar: str) -> list[str]:
        """Return `count` columns, as long as there are rows of `count` elements."""
        lanes, width = len(rows), whole_lanes(count)
        if count < width:
            wide = [*range(count), *[0] * (width - count)]
            rows = [self._shuffle(row, "poison", count, scalar, wide) for row in rows]
        size = max(width, whole_lanes(lanes))
        rows += ["poison"] * (size - lanes)
        columns = self._exchanged(rows, width, scalar)[:count]
        if size == lanes:
            return columns
        return [self._shuffle(c, "poison", size, scalar, range(lanes)) for c in columns]

    def _exchanged(self, rows: list[str], count: int, scalar: str) -> list[str]:
        """Return `count` columns of rows of `count` elements; both numbers are powers of two."""
        width = count
        while len(rows) > count:
            rows = [
                self._shuffle(rows[n], rows[n + count], width, scalar, range(2 * width))
                for n in range(len(rows))
                if not n & count
            ]
            width *= 2
        distance = count // 2
        while distance:
            for i in (i for i in range(count) if not i & distance):
                a, b = rows[i], rows[i + distance]
                upper = [n if not n & distance else width + n - distance for n in range(width)]
                lower = [n + distance if not n & distance else width + n for n in range(width)]
                rows[i] = self._shuffle(a, b, width, scalar, upper)
                rows[i + distance] = self._shuffle(a, b, width, scalar, lower)
            distance //= 2
        return rows

    def _shuffle(self, a: str, b: str, width: int, scalar: str, picks: Iterable[int]) -> str:
        kind, chosen = f"<{width} x {scalar}>", list(picks)
        mask = f"<{len(chosen)} x i32> {constants('i32', chosen)}"
        return self.builder.define(f"shufflevector {kind} {a}, {kind} {b}, {mask}")


def _is_straight(stmt: Stmt) -> bool:
    """Whether a statement consists of stores alone."""
    return isinstance(stmt, Store) or (isinstance(stmt, Seq) and all(map(_is_straight, stmt.stmts)))


def _vector_loads(stmt: Stmt) -> Iterable[Load]:
    """Yield loads of vectors from buffers that a statement does not store to."""
    stores = list(stmt.stmts) if isinstance(stmt, Seq) else [stmt]
    written = {store.buffer for store in stores if isinstance(store, Store)}
    for store in stores:
        if isinstance(store, Store):
            for node in walk_expr(store.value):
                if isinstance(node, Load) and node.lanes > 1 and node.buffer not in written:
                    yield node
