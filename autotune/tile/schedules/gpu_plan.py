"""Decides which statements of a Tile function each GPU kernel computes.

A kernel stores one tensor, its tail. The same kernel computes the contraction whose elements the
tail uses, reductions of its rows (the maximum and the sum of a softmax), and element-wise
statements that only this kernel reads or that are cheap to repeat.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from autotune import te
from autotune.ir.expr import Call, Expr, Read, Var
from autotune.ir.visitor import reads, substitute, walk_expr
from autotune.rules.stage_graph import extent, iterations
from autotune.te.tensor import ComputeOp
from autotune.tile.schedules.gpu_products import Product, product_of
from autotune.tile.to_te.program_to_te import Tensors

#: Calls that only select or hint.
_FREE: Final = ("if_then_else", "likely")
#: Largest number of operations that are repeated for each reader.
_MAX_REPEATED: Final = 64


@dataclass(slots=True)
class FusedKernel:
    """The stages of one kernel.

    Attributes
    ----------
    tail
        The tensor that it stores.
    product
        Its contraction that is computed in tiles.
    reductions
        Other reductions in it, in order: their elements are those of the tail's rows.
    rows
        Number of the tail's first axes longer than 1 that index rows.
    """

    tail: te.Tensor
    product: Product | None = None
    reductions: list[te.Tensor] = field(default_factory=list)
    rows: int = 0

    @property
    def members(self) -> list[str]:
        """Names of the other reductions."""
        return [tensor.name for tensor in self.reductions]

    @property
    def longest(self) -> int:
        """Steps of the longest of them."""
        return max(math.prod(map(extent, t.op.reduce_axis)) for t in self.reductions)

    @property
    def is_flat(self) -> bool:
        """Whether each element is a row of its own."""
        return bool(self.reductions) and self.rows == len(long_axes(self.tail))


@dataclass(frozen=True, slots=True)
class FusionPlan:
    """The kernels of a function, and the names of inlined stages.

    Attributes
    ----------
    kernels
        By the names of their tails, in order.
    inline
        Names of inlined element-wise stages.
    hosts
        Names of the kernels in which each stage is computed.
    """

    kernels: dict[str, FusedKernel]
    inline: frozenset[str]
    hosts: dict[str, frozenset[str]]

    def flat(self) -> set[str]:
        """Return names of reductions whose elements are computed as one row of them."""
        return {m for kernel in self.kernels.values() if kernel.is_flat for m in kernel.members}


def plan(tensors: Tensors) -> FusionPlan:
    """Return the kernels of a function, whose contractions are as they were written."""
    made = _Planner(tensors)
    for tensor in reversed(tensors.stages):
        made.place(tensor)
    kernels = {t.name: made.kernels[t.name] for t in tensors.stages if t.name in made.kernels}
    for kernel in kernels.values():
        kernel.reductions.reverse()
    return FusionPlan(kernels, frozenset(made.inline), made.hosts)


def long_axes(tensor: te.Tensor) -> list[Any]:
    """Return the axes that are longer than 1."""
    return [axis for axis in tensor.op.axis if extent(axis) > 1]


def computed_with(kernel: FusedKernel) -> list[te.Tensor]:
    """Return the tensors whose sizes determine the work of a kernel."""
    own = [] if kernel.product is None else [kernel.product.tensor]
    return [kernel.tail, *own, *kernel.reductions]


def is_reduction(tensor: te.Tensor) -> bool:
    """Whether a tensor is computed by a reduction."""
    return bool(tensor.op.reduce_axis)


def body_of(tensor: te.Tensor) -> Expr:
    """Return the expression of a computed tensor."""
    assert isinstance(tensor.op, ComputeOp)
    return tensor.op.body[0]


class _Planner:
    """Places stages, the last one first, so that the readers of a stage are already placed."""

    def __init__(self, tensors: Tensors) -> None:
        self.outputs = {t.name for t in tensors.outputs}
        self.kernels: dict[str, FusedKernel] = {}
        self.inline: set[str] = set()
        self.hosts: dict[str, frozenset[str]] = {}
        self.products: dict[str, Product] = {}
        self.readers: dict[str, list[te.Tensor]] = {t.name: [] for t in tensors.stages}
        self.computed = {t.name: t for t in tensors.stages}
        self.repeated: dict[str, int] = {}
        self.of_rows: set[str] = set()
        for tensor in tensors.stages:
            self._read(tensor)

    def _read(self, tensor: te.Tensor) -> None:
        """Collect the readers of tensors, operations per element, and reduced rows."""
        product = product_of(tensor) if is_reduction(tensor) else None
        if product is not None:
            self.products[tensor.name] = product
        found = list(dict.fromkeys(r.tensor for r in reads(body_of(tensor))))
        nodes = list(walk_expr(body_of(tensor)))
        operations = sum(1 for node in nodes if node.children and not isinstance(node, Read))
        for source in found:
            if source.name not in self.computed:
                continue
            self.readers[source.name].append(tensor)
            operations += self.repeated.get(source.name, 0)
            reduces = is_reduction(source) and source.name not in self.products
            if reduces or (source.name in self.of_rows and source.name in self.repeated):
                self.of_rows.add(tensor.name)
        dear = any(isinstance(node, Call) and node.name not in _FREE for node in nodes)
        if not is_reduction(tensor) and not dear and operations <= _MAX_REPEATED:
            self.repeated[tensor.name] = operations

    def place(self, tensor: te.Tensor) -> None:
        """Decide in which kernel a stage is computed, and how."""
        name = tensor.name
        if is_reduction(tensor):
            product = self.products.get(name)
            host = self._epilogue(tensor) if product is not None else self._row(tensor)
            kernel = self.kernels.setdefault(host, FusedKernel(tensor))
            if product is not None:
                kernel.product = product
            else:
                kernel.reductions.append(tensor)
                kernel.rows = len(long_axes(tensor))
            self.hosts[name] = frozenset([host])
        elif self._fuses(tensor):
            self.inline.add(name)
            readers = (self.hosts[r.name] for r in self.readers[name])
            self.hosts[name] = frozenset().union(*readers)
        else:
            self.kernels[name] = FusedKernel(tensor)
            self.hosts[name] = frozenset([name])

    def _fuses(self, tensor: te.Tensor) -> bool:
        """Whether an element-wise stage is inlined into its readers."""
        name, readers = tensor.name, self.readers[tensor.name]
        if name in self.outputs or not readers or (len(readers) > 1 and self._follows(tensor)):
            return False
        hosts = frozenset().union(*(self.hosts[r.name] for r in readers))
        fetched = any(r in self.products for r in self._users(tensor))
        if fetched and name in self.of_rows:
            return False  # rows are reduced once, not for each tile that is loaded
        if name in self.repeated:
            return True
        size = math.prod(map(extent, tensor.op.axis))
        return len(hosts) == 1 and not fetched and all(iterations(r) <= 2 * size for r in readers)

    def _follows(self, tensor: te.Tensor) -> bool:
        """Whether a stage is the only reader of a contraction and can be stored in its place."""
        own = list(dict.fromkeys(r.tensor for r in reads(body_of(tensor))))
        return any(
            t.name in self.products
            and t.name not in self.outputs
            and all(reader is tensor for reader in self.readers[t.name])
            and _is_same_element(t, tensor)
            for t in own
        )

    def _users(self, tensor: te.Tensor) -> set[str]:
        """Return the stages that read a tensor, directly or through inlined stages."""
        found = set()
        for reader in self.readers[tensor.name]:
            found |= self._users(reader) if reader.name in self.inline else {reader.name}
        return found

    def _epilogue(self, tensor: te.Tensor) -> str:
        """Return the element-wise stage that is stored in place of a contraction, or itself."""
        at = tensor
        while at.name not in self.outputs and len(self.readers[at.name]) == 1:
            (reader,) = self.readers[at.name]
            if is_reduction(reader) or not _is_same_element(at, reader):
                break
            at = reader
            kernel = self.kernels.get(at.name)
            if kernel is not None:
                return at.name if kernel.product is None and not kernel.reductions else tensor.name
        return tensor.name

    def _row(self, tensor: te.Tensor) -> str:
        """Return the kernel that can compute a reduction with its rows, or the reduction itself."""
        own = tensor.name
        if own in self.outputs or not long_axes(tensor) or len(self.hosts_of(tensor)) != 1:
            return own
        (host,) = self.hosts_of(tensor)
        kernel, rows = self.kernels[host], len(long_axes(tensor))
        if kernel.product is not None or (kernel.reductions and kernel.rows != rows):
            return own
        for user, indices in self._uses(tensor):
            places = long_axes(self.computed[user])
            given = [i for i, axis in zip(indices, tensor.op.axis, strict=True) if extent(axis) > 1]
            first = [axis.var for axis in places[: len(given)]]
            whole = not is_reduction(self.computed[user]) or len(places) == len(given)
            same = len(first) == len(given) and all(
                a is b for a, b in zip(given, first, strict=True)
            )
            if user in self.products or not whole or not same:
                return own
        return host

    def hosts_of(self, tensor: te.Tensor) -> frozenset[str]:
        """Return the kernels that read a tensor."""
        return frozenset().union(*(self.hosts[r.name] for r in self.readers[tensor.name]))

    def _uses(self, tensor: te.Tensor) -> Iterator[tuple[str, tuple[Expr, ...]]]:
        """Yield the readers of a tensor with their indices, inlined stages expanded."""
        for reader in self.readers[tensor.name]:
            own = [r.children for r in reads(body_of(reader)) if r.tensor is tensor]
            if reader.name not in self.inline:
                yield from ((reader.name, indices) for indices in own)
                continue
            for user, at in self._uses(reader):
                values: dict[Var, Any] = {
                    axis.var: i for axis, i in zip(reader.op.axis, at, strict=True)
                }
                for indices in own:
                    yield user, tuple(substitute(i, values) for i in indices)


def _is_same_element(tensor: te.Tensor, reader: te.Tensor) -> bool:
    """Whether a stage reads only the element of a tensor at the index that it stores."""
    if list(map(extent, tensor.op.axis)) != list(map(extent, reader.op.axis)):
        return False
    found = [r for r in reads(body_of(reader)) if r.tensor is tensor]
    return all(
        index is axis.var or extent(axis) == 1
        for r in found
        for index, axis in zip(r.children, reader.op.axis, strict=True)
    )
