"""Decides which stages each GPU kernel computes.

A kernel stores one tensor, its tail. The same kernel computes the contraction whose elements the
tail uses, reductions of its rows (the maximum and the sum of a softmax), and element-wise stages
that only this kernel reads or that are cheap to repeat.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from autotune import te
from autotune.ir.expr import Expr, Read, Var
from autotune.ir.ops import cast
from autotune.ir.visitor import substitute, walk_expr
from autotune.rules.gpu.matrix_products import Product, is_same_element, product_of
from autotune.rules.inline import has_calls
from autotune.rules.rewrite_graph import parts_of
from autotune.rules.stage_graph import extent, iterations, reads_in
from autotune.te.scan import ScanOp
from autotune.te.tensor import ComputeOp, Operation, producers_first

#: Largest number of operations that are repeated for each reader.
_MAX_REPEATED: Final = 64


@dataclass(slots=True)
class FusedKernel:
    """The stages of one kernel."""

    #: The tensor that it stores.
    tail: te.Tensor
    #: Its contraction that is computed in tiles.
    product: Product | None = None
    #: Other reductions in it, in order: their elements are those of the tail's rows.
    reductions: list[te.Tensor] = field(default_factory=list)
    #: Number of the tail's first axes longer than 1 that index rows.
    rows: int = 0
    #: Whether each thread computes whole elements: the stage cannot be rewritten.
    is_plain: bool = False

    @property
    def longest(self) -> int:
        """Steps of the longest of its reductions."""
        return max(math.prod(map(extent, t.op.reduce_axis)) for t in self.reductions)

    @property
    def is_flat(self) -> bool:
        """Whether each element is a row of its own."""
        return bool(self.reductions) and self.rows == len(long_axes(self.tail))

    @property
    def work(self) -> int:
        """Evaluations of its stages that are not inlined."""
        own = [] if self.product is None else [self.product.tensor]
        return sum(map(iterations, (self.tail, *own, *self.reductions)))


@dataclass(frozen=True, slots=True)
class FusionPlan:
    """The kernels of a computation, and the inlined stages."""

    #: By their tails, in order.
    kernels: dict[te.Tensor, FusedKernel]
    #: Inlined element-wise stages.
    inline: frozenset[te.Tensor]
    #: The tails of the kernels in which each stage is computed.
    hosts: dict[te.Tensor, frozenset[te.Tensor]]

    def flat(self) -> set[te.Tensor]:
        """Return the reductions whose elements are computed as one row of them."""
        return {t for kernel in self.kernels.values() if kernel.is_flat for t in kernel.reductions}


def plan(outputs: Sequence[te.Tensor], apart: Collection[Operation] = ()) -> FusionPlan:
    """Return the kernels of a computation, before its contractions are rewritten.

    Scans and their cells, and the operations in `apart`, belong to none of the kernels.
    """
    made = _Planner(outputs, apart)
    for tensor in reversed(made.stages):
        made.place(tensor)
    kernels = {t: made.kernels[t] for t in made.stages if t in made.kernels}
    for kernel in kernels.values():
        kernel.reductions.reverse()
    hosts = {t: made.hosts[t] for t in made.stages}
    return FusionPlan(kernels, frozenset(made.inline), hosts)


def long_axes(tensor: te.Tensor) -> list[Any]:
    """Return the axes that are longer than 1."""
    return [axis for axis in tensor.op.axis if extent(axis) > 1]


def is_reduction(tensor: te.Tensor) -> bool:
    """Whether a tensor is computed by a reduction."""
    return bool(tensor.op.reduce_axis)


class _Planner:
    """Places stages, the last one first, so that the readers of a stage are already placed."""

    def __init__(self, outputs: Sequence[te.Tensor], apart: Collection[Operation]) -> None:
        ops = producers_first([t.op for t in outputs])
        scans = [op for op in ops if isinstance(op, ScanOp)]
        cells = {part for op in scans for part in parts_of(op)}.union(apart)
        self.stages = [op.output() for op in ops if isinstance(op, ComputeOp) and op not in cells]
        self.kept = {*outputs, *(t for op in cells for t in op.input_tensors)}
        self.kernels: dict[te.Tensor, FusedKernel] = {}
        self.inline: set[te.Tensor] = set()
        self.hosts: dict[te.Tensor, frozenset[te.Tensor]] = {}
        self.products: dict[te.Tensor, Product] = {}
        self.readers: dict[te.Tensor, list[te.Tensor]] = {t: [] for t in self.stages}
        self.repeated: dict[te.Tensor, int] = {}
        self.of_rows: set[te.Tensor] = set()
        for tensor in self.stages:
            self._read(tensor)

    def _read(self, tensor: te.Tensor) -> None:
        """Collect the readers of tensors, operations per element, and reduced rows."""
        assert isinstance(tensor.op, ComputeOp)
        product = product_of(tensor) if self._can_be_rewritten(tensor) else None
        if product is not None:
            self.products[tensor] = product
        nodes = [node for value in tensor.op.body for node in walk_expr(value)]
        operations = sum(1 for node in nodes if node.children and not isinstance(node, Read))
        for source in dict.fromkeys(r.tensor.op.output() for r in reads_in(tensor.op)):
            if source not in self.readers:
                continue
            self.readers[source].append(tensor)
            operations += self.repeated.get(source, 0)
            reduces = is_reduction(source) and source not in self.products
            if reduces or (source in self.of_rows and source in self.repeated):
                self.of_rows.add(tensor)
        if not is_reduction(tensor) and not has_calls(tensor.op) and operations <= _MAX_REPEATED:
            self.repeated[tensor] = operations

    def _can_be_rewritten(self, tensor: te.Tensor) -> bool:
        """Whether a stage is a reduction of some elements to one tensor."""
        is_one = is_reduction(tensor) and len(tensor.op.outputs) == 1
        return is_one and iterations(tensor) > 0

    def place(self, tensor: te.Tensor) -> None:
        """Decide in which kernel a stage is computed, and how."""
        if self._can_be_rewritten(tensor):
            product = self.products.get(tensor)
            host = self._epilogue(tensor) if product is not None else self._row(tensor)
            kernel = self.kernels.setdefault(host, FusedKernel(tensor))
            if product is not None:
                kernel.product = product
            else:
                kernel.reductions.append(tensor)
                kernel.rows = len(long_axes(tensor))
            self.hosts[tensor] = frozenset([host])
        elif self._fuses(tensor):
            self.inline.add(tensor)
            readers = (self.hosts[r] for r in self.readers[tensor])
            self.hosts[tensor] = frozenset().union(*readers)
        else:
            is_plain = is_reduction(tensor) or len(tensor.op.outputs) > 1
            self.kernels[tensor] = FusedKernel(tensor, is_plain=is_plain)
            self.hosts[tensor] = frozenset([tensor])

    def _fuses(self, tensor: te.Tensor) -> bool:
        """Whether an element-wise stage is inlined into its readers."""
        readers = self.readers[tensor]
        if tensor in self.kept or is_reduction(tensor) or len(tensor.op.outputs) > 1:
            return False
        if not readers or (len(readers) > 1 and self._follows(tensor)):
            return False
        hosts = self.hosts_of(tensor)
        fetched = any(r in self.products for r in self._users(tensor))
        if fetched and tensor in self.of_rows:
            return False  # rows are reduced once, not for each tile that is loaded
        if tensor in self.repeated:
            return True
        if len(hosts) > 1 or fetched:
            return False
        size = math.prod(map(extent, tensor.op.axis))
        is_of_row = tensor in self.of_rows and all(
            len(long_axes(tensor)) < len(long_axes(r)) for r in readers
        )
        return is_of_row or all(iterations(r) <= 2 * size for r in readers)

    def _follows(self, tensor: te.Tensor) -> bool:
        """Whether a stage is the only reader of a contraction and can be stored in its place."""
        return any(
            t in self.products
            and t not in self.kept
            and all(reader is tensor for reader in self.readers[t])
            and is_same_element(t, tensor)
            for t in dict.fromkeys(r.tensor for r in reads_in(tensor.op))
        )

    def _users(self, tensor: te.Tensor) -> set[te.Tensor]:
        """Return the stages that read a tensor, directly or through inlined stages."""
        found = set()
        for reader in self.readers[tensor]:
            found |= self._users(reader) if reader in self.inline else {reader}
        return found

    def _epilogue(self, tensor: te.Tensor) -> te.Tensor:
        """Return the element-wise stage that is stored in place of a contraction, or itself."""
        at = tensor
        while at not in self.kept and len(self.readers[at]) == 1:
            (reader,) = self.readers[at]
            if is_reduction(reader) or not is_same_element(at, reader):
                break
            at = reader
            kernel = self.kernels.get(at)
            if kernel is not None:
                is_free = kernel.product is None and not kernel.reductions and not kernel.is_plain
                return at if is_free else tensor
        return tensor

    def _row(self, tensor: te.Tensor) -> te.Tensor:
        """Return the kernel that can compute a reduction with its rows, or the reduction itself."""
        if tensor in self.kept or not long_axes(tensor) or len(self.hosts_of(tensor)) != 1:
            return tensor
        (host,) = self.hosts_of(tensor)
        kernel, rows = self.kernels[host], len(long_axes(tensor))
        if kernel.product is not None or kernel.is_plain:
            return tensor
        if kernel.reductions and kernel.rows != rows:
            return tensor
        for user, indices in self._uses(tensor):
            places = long_axes(user)
            given = [i for i, axis in zip(indices, tensor.op.axis, strict=True) if extent(axis) > 1]
            first = [axis.var for axis in places[: len(given)]]
            whole = not is_reduction(user) or len(places) == len(given)
            same = len(first) == len(given) and all(
                a is b for a, b in zip(given, first, strict=True)
            )
            if user in self.products or not whole or not same:
                return tensor
        return host

    def hosts_of(self, tensor: te.Tensor) -> frozenset[te.Tensor]:
        """Return the kernels that read a tensor."""
        return frozenset().union(*(self.hosts[r] for r in self.readers[tensor]))

    def _uses(self, tensor: te.Tensor) -> Iterator[tuple[te.Tensor, tuple[Expr, ...]]]:
        """Yield the readers of a tensor with their indices, inlined stages expanded."""
        for reader in self.readers[tensor]:
            own = [r.children for r in reads_in(reader.op) if r.tensor is tensor]
            if reader not in self.inline:
                yield from ((reader, indices) for indices in own)
                continue
            for user, at in self._uses(reader):
                values: dict[Var, Any] = {
                    axis.var: cast(axis.var.dtype, i)
                    for axis, i in zip(reader.op.axis, at, strict=True)
                }
                for indices in own:
                    yield user, tuple(substitute(i, values) for i in indices)
