"""Random computations of tensor expressions, with their values in NumPy.

Products, convolutions, reductions, chains, scans and mixtures of them, with sizes from 1 to 500,
of all types. Values are small whole numbers: whatever a stage computes is exact in its type, in any
order of summation, so that answers are compared bit by bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from autotune import te
from autotune.ir import dtypes
from support.te_reference import Reference

#: Largest number of iterations of a stage, so that a computation takes a fraction of a second.
MOST_STEPS: Final = 1 << 20

#: Largest whole number up to which all are exact, by type.
_EXACT: Final = {
    "float64": 2**53, "float32": 2**24, "float16": 2**11, "bfloat16": 2**8,
    "int64": 2**62, "int32": 2**31 - 1, "int16": 2**15 - 1, "int8": 2**7 - 1,
    "uint8": 2**8 - 1,
}  # fmt: skip

_TYPES: Final = ("float32", "float32", "float32", *_EXACT)
_KINDS: Final = ("product", "convolution", "reduction", "chain", "scan")


@dataclass(frozen=True)
class Value:
    """A tensor, a bound of its elements, and their values once its inputs have some."""

    tensor: Any
    bound: int
    array: Callable[[], Any]


class RandomComputation:
    """A computation drawn from a seed.

    Parameters
    ----------
    seed : int

    Attributes
    ----------
    inputs, outputs : list of Tensor
    arrays : list of ndarray
        Values of the inputs.
    description : str
        What was drawn, for whoever reads a failure.
    """

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.inputs: list[Any] = []
        self.arrays: list[Any] = []
        self.words: list[str] = [f"seed {seed}"]
        self.dtype = self.pick(_TYPES)
        self.limit = _EXACT[self.dtype]
        values = [self.stage(self.pick(_KINDS), None)]
        for _ in range(self.number(0, 2)):
            values.append(self.stage(self.pick((*_KINDS, "chain", "chain")), values[-1]))
        if len(values) > 1 and self.chance(20):  # an inner stage is an output, too
            self.results = [values[-1], values[self.number(0, len(values) - 2)]]
        else:
            self.results = values[-1:]
        self.outputs = [value.tensor for value in self.results]

    @property
    def description(self) -> str:
        """What was drawn."""
        return "; ".join(self.words)

    def expected(self) -> list[Any]:
        """Return the values of the outputs."""
        return [value.array() for value in self.results]

    # -- draws ---------------------------------------------------------------------------------

    def number(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def chance(self, percent: int) -> bool:
        return self.number(0, 99) < percent

    def pick(self, options: Sequence[Any]) -> Any:
        return options[self.number(0, len(options) - 1)]

    def sizes(self, count: int, most: int = MOST_STEPS) -> list[int]:
        """Draw sizes from 1 to 500, small ones and primes among them, of at most so many points."""
        while True:
            found = [
                self.pick((self.number(1, 500), self.number(1, 40), self.pick((1, 2, 3, 7, 13, 16,
                           17, 31, 32, 61, 64, 97, 127, 128, 251, 499))))
                for _ in range(count)
            ]  # fmt: skip
            if math.prod(found) <= most:
                return found

    # -- stages --------------------------------------------------------------------------------

    def stage(self, kind: str, before: Value | None) -> Value:
        """Add a stage of a kind that reads the one before."""
        value: Value = getattr(self, kind)(before)
        shape = "x".join(map(str, value.tensor.shape))
        self.words.append(f"{kind} {value.tensor.dtype} {shape}")
        return value

    def input(self, shape: Sequence[int], most: int = 3) -> Value:
        """Add an input of small whole numbers."""
        tensor = te.placeholder(tuple(shape), self.dtype, name=f"I{len(self.inputs)}")
        low = 0 if self.dtype.startswith("u") else -most
        drawn = self.rng.integers(low, most + 1, tuple(shape))
        array = drawn.astype(dtypes.numpy_dtype(self.dtype))
        self.inputs.append(tensor)
        self.arrays.append(array)
        return Value(tensor, most, lambda: array)

    def computed(self, tensor: Any, bound: int, reads: Sequence[Value]) -> Value:
        """Return a tensor with its values, computed as a whole by NumPy."""
        made: list[Any] = []

        def array() -> Any:
            if not made:
                known = {value.tensor: value.array() for value in reads}
                made.append(Reference(known).array(tensor))
            return made[0]

        return Value(tensor, bound, array)

    def small(self, value: Value, most: int) -> Value:
        """Return a value, or one with its elements brought between -most and most."""
        if value.bound <= most:
            return value
        source, dtype = value.tensor, value.tensor.dtype
        low = te.const(0 if dtype.startswith("u") else -most, dtype)
        clipped = te.compute(
            source.shape, lambda *i: te.max(te.min(source[i], te.const(most, dtype)), low), name="T"
        )
        return self.computed(clipped, most, [value])

    def shaped(self, before: Value | None, rank: int, most: int = MOST_STEPS) -> Value:
        """Return the value before if it has this rank and is not too large, else an input."""
        if before is None or before.tensor.ndim != rank or math.prod(before.tensor.shape) > most:
            return self.input(self.sizes(rank, most))
        return before

    @property
    def wide(self) -> str:
        """Type of sums."""
        return dtypes.accumulator(self.dtype) if dtypes.is_float(self.dtype) else self.dtype

    def summed(
        self, body: Callable[..., Any], shape: Any, axes: Any, steps: int, reads: Any
    ) -> Value:
        """Return sums of products of two values, in the type of sums, as the type itself."""
        most = max(1, math.isqrt(self.limit // max(1, steps)))
        a, b = (self.small(value, most) for value in reads)
        total = te.compute(
            shape,
            lambda *i: te.sum(
                body(a.tensor, b.tensor, *i, wide=lambda e: e.astype(self.wide)), axis=axes
            ),
            name="S",
        )
        bound = steps * a.bound * b.bound
        value = self.computed(total, bound, [a, b])
        if total.dtype == self.dtype:
            return value
        value = self.small(value, self.limit)
        own = value.tensor
        narrow = te.compute(own.shape, lambda *i: own[i].astype(self.dtype), name="N")
        return self.computed(narrow, value.bound, [value])

    def product(self, before: Value | None) -> Value:
        """Matrices, or batches of them; each operand may be transposed."""
        batch = self.chance(30)
        first = self.shaped(before, 3 if batch else 2, MOST_STEPS // 4)
        *front, p, q = first.tensor.shape
        flip_a, flip_b = self.chance(30), self.chance(40)
        m, k = (q, p) if flip_a else (p, q)
        n = self.sizes(1, max(1, MOST_STEPS // max(1, math.prod(first.tensor.shape))))[0]
        second = self.input([*front, n, k] if flip_b else [*front, k, n])
        r = te.reduce_axis((0, k), "r")

        def body(a: Any, b: Any, *index: Any, wide: Any) -> Any:
            *g, i, j = index
            left = a[(*g, r, i) if flip_a else (*g, i, r)]
            right = b[(*g, j, r) if flip_b else (*g, r, j)]
            return wide(left) * wide(right) if self.chance(50) else wide(right) * wide(left)

        return self.summed(body, (*front, m, n), r, k, (first, second))

    def convolution(self, before: Value | None) -> Value:
        """Images or signals: stride, dilation, groups, padding."""
        rank = self.pick((1, 2, 2))
        data = before if before is not None and before.tensor.ndim == rank + 2 else None
        if data is None:
            groups = self.pick((1, 1, 1, 2, 4))
            channels = groups * self.number(1, 8)
            data = self.input([self.number(1, 2), channels, *self.sizes(rank, 1 << 11)])
        batch, channels, *size = data.tensor.shape
        groups = self.pick([g for g in (1, 2, 3, 4, channels) if channels % g == 0])
        stride, dilation = self.pick((1, 1, 2, 3)), self.pick((1, 1, 2))
        kernel = [self.number(1, min(4, (s + dilation - 1) // dilation)) for s in size]
        pad = self.pick((0, 1, 2))
        depth, out = channels // groups, groups * self.number(1, 8)
        result = [
            (s + 2 * pad - dilation * (k - 1) - 1) // stride + 1
            for s, k in zip(size, kernel, strict=True)
        ]
        weight = self.input([out, depth, *kernel])
        source = data
        if pad:
            own = data.tensor

            def padded(b: Any, c: Any, *at: Any) -> Any:
                inside = [te.all(a >= pad, a < s + pad) for a, s in zip(at, size, strict=True)]
                value = own[(b, c, *(a - pad for a in at))]
                return te.if_then_else(te.all(*inside), value, te.const(0, own.dtype))

            larger = te.compute((batch, channels, *(s + 2 * pad for s in size)), padded, name="P")
            source = self.computed(larger, data.bound, [data])
        rc = te.reduce_axis((0, depth), "rc")
        rs = [te.reduce_axis((0, k), f"r{n}") for n, k in enumerate(kernel)]

        def body(d: Any, w: Any, b: Any, f: Any, *at: Any, wide: Any) -> Any:
            channel = rc if groups == 1 else (f // (out // groups)) * depth + rc
            where = [a * stride + r * dilation for a, r in zip(at, rs, strict=True)]
            return wide(d[(b, channel, *where)]) * wide(w[(f, rc, *rs)])

        steps = depth * math.prod(kernel)
        return self.summed(body, (batch, out, *result), [rc, *rs], steps, (source, weight))

    def reduction(self, before: Value | None) -> Value:
        """Sums or extremes over some axes of rows, columns or everything."""
        source = self.shaped(before, self.pick((1, 2, 2, 3)))
        shape = source.tensor.shape
        count = len(shape)
        over = [n for n in range(count) if self.chance(50)] or [self.number(0, count - 1)]
        how = self.pick(("sum", "sum", "max", "min"))
        steps = math.prod(shape[n] for n in over)
        if how == "sum":
            source = self.small(source, max(1, self.limit // steps))
        axes = {n: te.reduce_axis((0, shape[n]), f"r{n}") for n in over}
        kept = [n for n in range(count) if n not in over]
        wide = self.wide if how == "sum" else self.dtype
        own = source.tensor

        def element(*index: Any) -> Any:
            places = {**dict(zip(kept, index, strict=True)), **axes}
            value = own[tuple(places[n] for n in range(count))].astype(wide)
            return getattr(te, how)(value, axis=list(axes.values()))

        reduced = te.compute(tuple(shape[n] for n in kept), element, name="R")
        bound = source.bound * (steps if how == "sum" else 1)
        value = self.computed(reduced, bound, [source])
        if self.chance(50) and kept and value.bound + source.bound <= self.limit:  # as norms do
            total = value.tensor

            def spread(*index: Any) -> Any:
                part = own[index].astype(wide) - total[tuple(index[n] for n in kept)]
                return part.astype(self.dtype)

            both = te.compute(shape, spread, name="D")
            if not self.dtype.startswith("u"):
                return self.computed(both, value.bound + source.bound, [value, source])
        if reduced.dtype == self.dtype:
            return value
        value = self.small(value, self.limit)
        last = value.tensor
        narrow = te.compute(last.shape, lambda *i: last[i].astype(self.dtype), name="N")
        return self.computed(narrow, value.bound, [value])

    def chain(self, before: Value | None) -> Value:
        """Elements by themselves: broadcasts, permutations, choices, several steps."""
        value = self.shaped(before, before.tensor.ndim if before is not None else self.number(1, 3))
        for _ in range(self.number(1, 3)):
            value = self.link(value)
        return value

    def link(self, value: Value) -> Value:
        """One step of a chain."""
        own, shape = value.tensor, value.tensor.shape
        how = self.pick(("add", "scale", "relu", "transpose", "reverse", "broadcast", "both"))
        if how == "transpose" and len(shape) > 1:
            order = self.rng.permutation(len(shape)).tolist()
            back = [order.index(n) for n in range(len(shape))]
            moved = te.compute(
                tuple(shape[n] for n in order), lambda *i: own[tuple(i[n] for n in back)], name="M"
            )
            return self.computed(moved, value.bound, [value])
        if how == "reverse" and len(shape):
            turned = te.compute(shape, lambda *i: own[(*i[:-1], shape[-1] - 1 - i[-1])], name="V")
            return self.computed(turned, value.bound, [value])
        if how in ("add", "broadcast") and len(shape):
            value = self.small(value, self.limit - 3)
            own = value.tensor
            bias = self.input(shape if how == "add" else shape[-1:])
            other = bias.tensor
            last = len(shape) if how == "add" else 1
            total = te.compute(shape, lambda *i: own[i] + other[i[-last:]], name="A")
            return self.computed(total, value.bound + bias.bound, [value, bias])
        if how == "both":
            value = self.small(value, self.limit // 2)
            own = value.tensor
            half = te.compute(shape, lambda *i: te.max(own[i], te.const(0, self.dtype)), name="H")
            sums = te.compute(shape, lambda *i: half[i] + own[i], name="B")
            return self.computed(sums, 2 * value.bound, [value])
        if how == "scale":
            value = self.small(value, self.limit // 2)
            own = value.tensor
            scaled = te.compute(shape, lambda *i: own[i] * te.const(2, self.dtype), name="C")
            return self.computed(scaled, 2 * value.bound, [value])
        relu = te.compute(shape, lambda *i: te.max(own[i], te.const(0, self.dtype)), name="U")
        return self.computed(relu, value.bound, [value])

    def scan(self, before: Value | None) -> Value:
        """Running sums or extremes down the first axis."""
        value = self.shaped(before, self.pick((1, 2, 2, 3)), MOST_STEPS // 4)
        steps = value.tensor.shape[0]
        if steps == 1:
            return self.link(value)
        how = self.pick(("sum", "max"))
        if how == "sum":
            value = self.small(value, max(1, self.limit // steps))
        own, shape = value.tensor, value.tensor.shape
        state = te.placeholder(shape, self.dtype, name="state")
        init = te.compute((1, *shape[1:]), lambda t, *i: own[(t, *i)], name="init")

        def update(t: Any, *i: Any) -> Any:
            last, new = state[(t - 1, *i)], own[(t, *i)]
            return last + new if how == "sum" else te.max(last, new)

        result = te.scan(init, te.compute(shape, update, name="update"), state, name="scan")

        def array() -> Any:
            source = value.array()
            if how == "max":
                return np.maximum.accumulate(source, axis=0)
            return np.cumsum(source, axis=0, dtype=source.dtype)

        return Value(result, value.bound * (steps if how == "sum" else 1), array)
