"""Random tensor programs of one to three stages, in bounds by construction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from autotune import te
from autotune.ir import dtypes
from autotune.ir.axes import IterVar
from autotune.ir.expr import Expr, Reduce, SizeVar
from autotune.te.tensor import Tensor
from support.te_reference import Reference, _Grid

Draw = Callable[[Any], Any]
SIZES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12)
DTYPES = ("float32", "float64", "int32", "int64", *dtypes.NUMBERS)
INDEX_TYPES = ("int32", "int64", *dtypes.INTEGERS)
ELEMENTS = 150


#: Reducers of two values together.
REDUCERS = {
    # The largest value, and the first place of it: which one is first depends on no order.
    "argmax": te.comm_reducer(
        lambda x, y: (
            te.select(te.any(x[1] > y[1], te.all(x[1].equal(y[1]), x[0] < y[0])), x[0], y[0]),
            te.max(x[1], y[1]),
        ),
        lambda place, value: (te.const(2**31 - 1, place), lowest(value)),
        name="argmax",
    ),
    "sum_and_min": te.comm_reducer(
        lambda x, y: (x[0] + y[0], te.min(x[1], y[1])),
        lambda a, b: (te.const(0, a), te.const(dtypes.identity("min", b), b)),
        name="sum_and_min",
    ),
    "complex_product": te.comm_reducer(
        lambda x, y: (x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]),
        lambda re, im: (te.const(1, re), te.const(0, im)),
        name="complex_product",
    ),
}


@dataclass
class Program:
    """Placeholders and computed tensors, in order; the last one is an output."""

    inputs: list[Tensor] = field(default_factory=list)
    stages: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)

    def describe(self) -> str:
        """Text of the definitions."""
        lines = [f"{t.name}: {t.dtype}{list(t.shape)}" for t in self.inputs]
        for t in self.stages:
            axes = ", ".join(f"{a.name}<{a.dom.extent}" for a in (*t.op.axis, *t.op.reduce_axis))
            body = t.op.body[0]
            where = f" where {body.condition}" if isinstance(body, Reduce) else ""
            lines.append(f"{t.name}: {t.dtype}{list(t.shape)} ({axes}) = {body}{where}")
        lines.append(f"outputs: {', '.join(t.name for t in self.outputs)}")
        return "\n".join(lines)


def lowest(dtype: str) -> Expr:
    """Return the smallest value of a type."""
    return te.const(dtypes.identity("max", dtype), dtype)


def bounded(value: Expr, limit: int) -> Expr:
    """Return `value` cut to what lies within `limit` of 0."""
    low = max(-limit, dtypes.min_value(value.dtype))
    return te.max(te.min(value, min(limit, dtypes.max_value(value.dtype))), low)


def spread(expr: Expr, axes: list[IterVar]) -> tuple[int, int]:
    """Smallest and largest value of an index over all points of the axes."""
    values = _Grid(Reference({}), axes, True).value(expr)
    if values.size == 0:  # an axis without points: any index will do
        return 0, 0
    return int(np.min(values)), int(np.max(values))


class _Builder:
    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.program = Program()
        self.indexing = False
        self.sizes = draw(st.lists(st.sampled_from(SIZES), min_size=1, max_size=3))

    def pick(self, *options: Any) -> Any:
        return self.draw(st.sampled_from(options))

    def integer(self, low: int, high: int) -> int:
        return int(self.draw(st.integers(low, high)))

    def chance(self, percent: int) -> bool:
        return bool(self.integer(0, 99) < percent)

    # -- indices -------------------------------------------------------------------------------

    def index(self, axes: list[IterVar]) -> Expr:
        """Return an integer expression over some axes."""
        if not axes:
            return te.const(self.integer(0, 3))
        a = self.pick(*axes).var
        kind = self.integer(0, 11)
        if kind <= 4:
            return a
        if kind == 5:
            return te.const(self.integer(0, 3))
        b = self.pick(*axes).var
        c = self.integer(1, 4)
        d = self.integer(-3, 3)
        return [
            lambda: a * c + d,
            lambda: a + b,
            lambda: a * c + b,
            lambda: (a * c + d) // self.integer(1, 5),
            lambda: (a * c + b + d) % self.integer(1, 7),
            lambda: d - a * c + b // c,
        ][kind - 6]()

    def element(self, tensor: Tensor | None, axes: list[IterVar]) -> Expr:
        """Return an element of a tensor at random indices; of a new placeholder if None."""
        if tensor is None:
            return self._of_placeholder(axes)
        conditions: list[Expr] = []
        indices = []
        for size in tensor.shape:
            assert isinstance(size, int)
            fitting = [x for x in axes if spread(x.var, axes)[1] < size]
            if fitting and self.chance(70):
                indices.append(self.pick(*fitting).var)
                continue
            if size > 0 and self.chance(8):
                indices.append(self.gathered(size, axes))
                continue
            expr = self.index(axes)
            low, high = spread(expr, axes)
            if low < 0 or high >= size:
                how = self.integer(0, 3) if size else 3
                if how == 0:
                    expr = expr % size
                elif how == 1:
                    expr = te.max(te.min(expr, size - 1), 0)
                elif how == 2 and high - low < size:
                    expr = expr - low
                else:
                    conditions += [te.all(expr >= 0, expr < size)]
            indices.append(expr)
        read = tensor(*indices)
        if not conditions:
            return read
        other = self.integer(max(-2, int(dtypes.min_value(read.dtype))), 2)
        return te.if_then_else(te.all(*conditions), read, te.const(other, read.dtype))

    def gathered(self, size: int, axes: list[IterVar]) -> Expr:
        """Return an index below `size` that is read from a tensor."""
        self.indexing = True
        element = self._of_placeholder(axes)
        self.indexing = False
        if not dtypes.is_index(element.dtype):
            element = bounded(element, 100).astype("int32")
        return element % size

    def _of_placeholder(self, axes: list[IterVar]) -> Expr:
        old = list(self.program.inputs)
        if old and self.chance(25):
            return self.element(self.pick(*old), axes)
        indices, shape = [], []
        for _ in range(self.integer(1, 3)):
            expr = self.index(axes)
            low, high = spread(expr, axes)
            if low < 0 or self.chance(10):
                expr, high = expr - low, high - low
            indices.append(expr)
            shape.append(high + 1 + self.pick(0, 0, 0, 1, 3))
        if np.prod(shape) > 4000:
            indices, shape = indices[:1], shape[:1]
        dtype = self.pick(*(INDEX_TYPES if self.indexing else DTYPES))
        name = "ABDEFGHIJKLMNOPQRSTUVW"[len(self.program.inputs)]
        tensor = te.placeholder(tuple(shape), dtype, name)
        self.program.inputs.append(tensor)
        return tensor(*indices)

    # -- values --------------------------------------------------------------------------------

    def value(self, sources: list[Tensor], axes: list[IterVar], depth: int) -> Expr:
        """Return an expression of elements of `sources` and of new placeholders."""
        if depth == 0 or self.chance(25):
            source = self.pick(*sources, None) if sources else None
            return self.element(source, axes)
        a = self.value(sources, axes, depth - 1)
        kind = self.integer(0, 9)
        if kind <= 4:
            b = self.value(sources, axes, depth - 1)
            return [
                lambda: a + b, lambda: a - b, lambda: self.product(a, b),
                lambda: te.max(a, b), lambda: te.min(a, b),
            ][kind]()  # fmt: skip
        if kind == 5 and axes:
            condition = self.index(axes) < self.index(axes)
            return te.select(condition, a, self.value(sources, axes, depth - 1))
        if kind == 6 and dtypes.is_integer(a.dtype):
            by = self.pick(2, 3, 5, *(() if dtypes.is_unsigned(a.dtype) else (-2, -3)))
            return a // by if self.chance(50) else a % by
        if kind == 7:
            return te.abs(a)
        if kind == 8 and axes:
            return a + self.index(axes).astype(a.dtype)
        return self.cast(a)

    def cast(self, value: Expr, dtype: str | None = None) -> Expr:
        dtype = dtype or self.pick(*DTYPES)
        if dtypes.is_float(value.dtype) and dtypes.is_integer(dtype):
            # NumPy gives what an integer cannot hold no meaning.
            limit = min(1000, int(dtypes.max_value(dtype)))
            value = te.max(te.min(value, limit), max(-limit, int(dtypes.min_value(dtype))))
        if dtypes.is_half(dtype):
            value = bounded(value, 100)  # half types soon overflow, and NaN has no order
        return value.astype(dtype)

    def product(self, a: Expr, b: Expr) -> Expr:
        product = a * b
        return bounded(product, 100) if dtypes.is_half(product.dtype) else product

    # -- stages --------------------------------------------------------------------------------

    def stage(self, name: str) -> None:
        before = list(self.program.stages)
        sources = before[-1:] if self.chance(70) else before
        if before and self.chance(40):
            shape = list(before[-1].shape)
            if self.chance(30):
                shape.reverse()
        else:
            count = self.pick(1, 2, 2, 3)
            shape = [self.pick(*self.sizes) for _ in range(count)]
            while np.prod(shape) > ELEMENTS:
                shape[int(np.argmax(shape))] //= 2
        extents = []
        reducing = self.chance(45)
        if reducing:
            extents = [self.integer(1, 6) for _ in range(self.pick(1, 1, 2))]
            if self.chance(4):
                extents[0] = 0
        starts = [self.pick(0, 0, 0, 2) for _ in extents]
        reduced = [
            te.reduce_axis((first, first + extent), f"{name.lower()}r{n}")
            for n, (first, extent) in enumerate(zip(starts, extents, strict=True))
        ]
        spatial = [te.compute((n,), lambda i: i, name="_").op.axis[0] for n in shape]
        kind = self.pick("sum", "sum", "sum", "max", "min", "prod", *REDUCERS)
        # The maximum of nothing fits no other type.
        where = self.chance(15) and kind in ("sum", "prod")
        if 0 in extents and kind in ("max", "min", *REDUCERS):
            kind = "sum"

        def body(*indices: Expr) -> Any:
            axes = [IterVar(v, a.dom, a.kind) for v, a in zip(indices, spatial, strict=True)]
            every = axes + reduced
            value = self.value(sources, every, self.integer(0, 2))
            if before and not any(t in sources for t in _tensors(value)):
                value = value + self.element(before[-1], every)
            if not reducing:
                return value
            if kind in REDUCERS:
                return self.several(kind, value, sources, every, reduced)
            condition = self.index(every) <= self.index(every) if where else None
            if kind == "prod":
                value = bounded(value, 2)
            reduce: Expr = getattr(te, kind)(value, axis=reduced, where=condition)
            return reduce

        names = [f"{name.lower()}{'ijk'[n]}" for n in range(len(shape))]
        function = eval(f"lambda {', '.join(names)}: body({', '.join(names)})", {"body": body})
        tensor = te.compute(tuple(shape), function, name=name)
        self.program.stages += tensor if isinstance(tensor, list) else [tensor]

    def several(
        self,
        kind: str,
        value: Expr,
        sources: list[Tensor],
        axes: list[IterVar],
        reduced: list[IterVar],
    ) -> Any:
        """Return a reduction of two values together."""
        if kind == "argmax":
            place = sum((a.var * 7**n for n, a in enumerate(reduced)), te.const(0))
            return REDUCERS[kind]((place, value), axis=reduced)
        other = self.value(sources, axes, 1)
        if dtypes.is_half(value.dtype):  # sums that user-defined reducers round in this type
            value = value.astype("float32")
        if kind == "complex_product":  # exact in integers, in any order
            value, other = (self.cast(v, "int64") for v in (value, other))
        return REDUCERS[kind]((value, other), axis=reduced)

    def build(self) -> Program:
        for name in ("X", "Y", "Z")[: self.pick(1, 2, 2, 3, 3)]:
            self.stage(name)
        stages = self.program.stages
        ops = list(dict.fromkeys(t.op for t in stages))
        wanted = {ops[-1]}
        # What nothing reads is an output too, and sometimes so is what something does read.
        for op in ops[:-1]:
            read = any(t in later.input_tensors for later in ops for t in op.outputs)
            if not read or self.chance(8):
                wanted.add(op)
        # One value of an operation may be returned without the other.
        self.program.outputs = [
            t for t in stages if t.op in wanted and (t.value_index == 0 or self.chance(70))
        ]
        return self.program


def _tensors(expr: Expr) -> list[Tensor]:
    from autotune.ir.visitor import reads

    return [read.tensor for read in reads(expr)]


@st.composite
def programs(draw: Draw) -> Program:
    """Strategy of random programs."""
    return _Builder(draw).build()


@st.composite
def symbolic_programs(draw: Draw) -> tuple[Program, tuple[SizeVar, SizeVar]]:
    """Strategy of programs whose sizes n and m are known only when they are called."""
    n, m = te.var("n"), te.var("m")
    A, B = te.placeholder((n, m), name="A"), te.placeholder((m, n), "int32", name="B")
    V = te.placeholder((m,), name="V")
    k = te.reduce_axis((0, m), "k")
    first = draw(
        st.sampled_from(
            [
                lambda i, j: A[i, j] * 2 + B[j, i],
                lambda i, j: te.if_then_else(te.all(i >= 1, j + 1 < m), A[i - 1, j + 1], V[j]),
                lambda i, j: A[n - 1 - i, j] - V[(i * m + j) // n % m],
                lambda i, j: te.max(A[i, j], V[te.min(j + 2, m - 1)]),
            ]
        )
    )
    X = te.compute((n, m), lambda i, j: first(i, j), name="X")
    Y = draw(
        st.sampled_from(
            [
                lambda: te.compute((m, n), lambda y, x: X[x, y] + V[y], name="Y"),
                lambda: te.compute((n,), lambda y: te.sum(X[y, k] * V[k], axis=k), name="Y"),
                lambda: te.compute(
                    (n, n), lambda y, x: te.sum(X[y, k] * B[k, x], axis=k), name="Y"
                ),
                lambda: te.compute((n * m,), lambda y: X[y // m, y % m] + 1, name="Y"),
                lambda: te.compute((n, 3), lambda y, x: te.max(X[y, k] - x, axis=k), name="Y"),
            ]
        )
    )()
    return Program([A, B, V], [X, Y], [Y]), (n, m)
