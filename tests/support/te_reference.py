"""Evaluates tensor expressions with NumPy, whole tensors at once: the reference for schedules.

Shares nothing with lowering: an expression is evaluated on arrays that hold every index of the
tensor (and of the reduction axes) along one dimension each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from autotune.ir.axes import IterVar
from autotune.ir.dtypes import numpy_dtype
from autotune.ir.expr import (
    BinaryOp,
    Call,
    Cast,
    Const,
    Expr,
    Not,
    Read,
    Reduce,
    Select,
    SizeVar,
    Var,
)
from autotune.te.tensor import ComputeOp, Tensor
from support.numpy_operations import NUMPY

_FUNCTIONS: dict[str, Any] = {
    "abs": np.abs, "exp": np.exp, "sqrt": np.sqrt, "tanh": np.tanh, "floor": np.floor,
    "ceil": np.ceil, "round": np.rint, "trunc": np.trunc, "fmod": np.fmod, "isnan": np.isnan,
    "popcount": lambda a: np.bitwise_count(a.astype(f"u{a.dtype.itemsize}")),
}  # fmt: skip


class Reference:
    """Values of tensors, given the arrays of the placeholders.

    Parameters
    ----------
    arrays
        One array per placeholder.
    sizes
        Values of the sizes that are known only when a function is called.
    """

    def __init__(
        self, arrays: Mapping[Tensor, Any], sizes: Mapping[SizeVar, int] | None = None
    ) -> None:
        self.arrays = dict(arrays)
        self.sizes = dict(sizes or {})

    def size(self, extent: Expr) -> int:
        """Value of a size."""
        return int(_Grid(self, (), True).value(extent))

    def array(self, tensor: Tensor) -> Any:
        """Return all elements of a tensor."""
        if tensor not in self.arrays:
            assert isinstance(tensor.op, ComputeOp)
            shape = tuple(self.size(extent) for extent in tensor.extents)
            body = tensor.op.body[tensor.value_index]
            grid = _Grid(self, tensor.op.axis, True)
            value = np.broadcast_to(grid.value(body), shape)
            self.arrays[tensor] = value.astype(numpy_dtype(tensor.dtype))
        return self.arrays[tensor]


class _Grid:
    """Evaluates expressions at all points of some axes."""

    def __init__(self, reference: Reference, axes: Sequence[IterVar], mask: Any) -> None:
        self.reference = reference
        self.axes = tuple(axes)
        self.mask = mask
        self.variables: dict[Any, Any] = dict(reference.sizes)
        for position, axis in enumerate(self.axes):
            assert axis.dom is not None
            first, extent = reference.size(axis.dom.min), reference.size(axis.dom.extent)
            shape = [1] * len(self.axes)
            shape[position] = extent
            self.variables[axis.var] = np.arange(first, first + extent).reshape(shape)

    def value(self, node: Expr) -> Any:
        match node:
            case Const():
                return np.asarray(node.value, dtype=numpy_dtype(node.dtype))
            case Var():
                return np.asarray(self.variables[node]).astype(numpy_dtype(node.dtype))
            case BinaryOp(op="and"):
                return self._either(self.value(node.a), node.b, Const(False, "bool"))
            case BinaryOp(op="or"):
                return self._either(self.value(node.a), Const(True, "bool"), node.b)
            case BinaryOp():
                result = NUMPY[node.op](self.value(node.a), self.value(node.b))
                return result.astype(numpy_dtype(node.dtype))
            case Not():
                return np.logical_not(self.value(node.a))
            case Select():
                return np.where(*map(self.value, node.children))
            case Cast():
                return self.value(node.a).astype(numpy_dtype(node.dtype))
            case Call(name="if_then_else"):
                condition, true, false = node.children
                return self._either(self.value(condition), true, false)
            case Call():
                result = _FUNCTIONS[node.name](*map(self.value, node.children))
                return result.astype(numpy_dtype(node.dtype))
            case Read():
                return self._read(node)
            case Reduce():
                return self._reduce(node)
        raise TypeError(f"no reference for {type(node).__name__}")

    def _either(self, test: Any, true: Expr, false: Expr) -> Any:
        """Return one of two values, each of which reads only where it is chosen."""
        sides = []
        outer = self.mask
        for side, mask in ((true, test), (false, np.logical_not(test))):
            self.mask = np.logical_and(outer, mask)
            sides.append(self.value(side))
        self.mask = outer
        return np.where(test, *sides)

    def _read(self, node: Read) -> Any:
        array = self.reference.array(node.tensor)
        indices = []
        for size, child in zip(array.shape, node.children, strict=True):
            index = self.value(child)
            inside = np.logical_and(index >= 0, index < size)
            if np.any(np.logical_and(self.mask, np.logical_not(inside))):
                raise AssertionError(f"the program reads outside {node.tensor.name}: {node}")
            indices.append(np.where(inside, index, 0))
        if array.size == 0:
            return np.zeros(np.broadcast(*indices).shape, array.dtype)
        return array[tuple(indices)]

    def _reduce(self, node: Reduce) -> Any:
        assert self.mask is True
        count = len(self.axes)
        grid = _Grid(self.reference, (*self.axes, *node.axes), True)
        shape = np.broadcast_shapes(*(np.shape(grid.variables[a.var]) for a in grid.axes))
        condition = np.broadcast_to(grid.value(node.condition), shape)
        grid.mask = condition
        source = np.broadcast_to(grid.value(node.sources[node.index]), shape)
        identity = node.combiner.identity[node.index]
        assert isinstance(identity, Const)
        start = np.asarray(identity.value, dtype=numpy_dtype(node.dtype))
        source = np.where(condition, source, start)
        axis = tuple(range(count, count + len(node.axes)))
        known = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}
        combine = known.get(node.combiner.name)
        if combine is None:
            return self._folded(node, grid, shape, condition)
        return combine.reduce(source, axis=axis, dtype=numpy_dtype(node.dtype), initial=start)

    def _folded(self, node: Reduce, grid: _Grid, shape: Sequence[int], condition: Any) -> Any:
        """Combine the elements one after another, as the reducer's definition says."""
        combiner, kept = node.combiner, tuple(shape[: len(self.axes)])
        flat = (*kept, math.prod(shape[len(kept) :]))
        sources = [np.broadcast_to(grid.value(s), shape).reshape(flat) for s in node.sources]
        valid = condition.reshape(flat)
        held = [np.full(kept, i.value, numpy_dtype(i.dtype)) for i in combiner.identity]  # type: ignore[attr-defined]
        step = _Grid(self.reference, (), True)
        for position in range(valid.shape[-1]):
            step.variables.update(zip(combiner.lhs, held, strict=True))
            elements = [source[..., position] for source in sources]
            step.variables.update(zip(combiner.rhs, elements, strict=True))
            results = [step.value(result) for result in combiner.result]
            held = [
                np.where(valid[..., position], new, old)
                for new, old in zip(results, held, strict=True)
            ]
        return held[node.index]


def random_array(rng: np.random.Generator, shape: Sequence[int], dtype: str) -> Any:
    """Small whole numbers, so that sums and products of floats are exact in any order."""
    values = rng.integers(-4, 5, size=tuple(shape))
    return values.astype(numpy_dtype(dtype))


#: Errors that sums in another order may make, relative to the largest element.
TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-5, "float64": 1e-12}


def close(got: Any, want: Any, tolerance: float) -> bool:
    """Equal integers; floats that differ by rounding, as sums in another order do."""
    if want.dtype.name not in TOLERANCE:
        return np.array_equal(got, want)
    got, want = got.astype(np.float64), want.astype(np.float64)
    scale = np.max(np.abs(want), initial=1.0, where=np.isfinite(want))
    return np.allclose(got, want, rtol=tolerance, atol=tolerance * scale, equal_nan=True)


def convolved(data: Any, weights: Any) -> Any:
    """Return the convolution of images in NCHW layout, with a border that keeps their size."""
    border = weights.shape[-1] // 2
    padded = np.pad(data, ((0, 0), (0, 0), (border, border), (border, border)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, weights.shape[2:], (2, 3))
    return np.einsum("nchwyx,fcyx->nfhw", windows, weights)
