"""How the inputs of a workload are used, as far as this limits their values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from autotune.ir import dtypes
from autotune.ir import expr as ir
from autotune.ir.evaluate.interpreter import evaluate
from autotune.ir.expr import Expr
from autotune.ir.visitor import reads, walk_expr
from autotune.te.tensor import ComputeOp, Tensor

_SMALL = 8  # Values below this are drawn for an input that an index is computed from.


@dataclass(frozen=True)
class InputUse:
    """How an input is used."""

    # Set for an index or a shift count: values are drawn from 0 up to this, exclusive.
    limit: int | None = None
    divides: bool = False  # It is a divisor: it is never 0, and integers stay small.
    # Terms of a sum in which it is multiplied with something else, 1 if there is no such sum.
    # Realistic inputs are divided by the root of it, so that results stay of order 1.
    factors: int = 1
    # It is an integer in a computation that converts integers to floats: it stays small.
    converted: bool = False
    sign: int = -1  # Sign of some rows: 1 if the smallest elements of rows are computed.


def input_uses(inputs: Sequence[Tensor], operations: Iterable[ComputeOp]) -> list[InputUse]:
    """Return how each input of a computation is used.

    inputs: made by `te.placeholder`, of constant sizes.
    operations: all that is computed, producers first.
    """
    found = _Uses(inputs)
    for op in operations:
        for body in op.body:
            found.visit(op, body)
    return [found.of(tensor) for tensor in inputs]


class _Uses:
    """Collects how inputs are used, and which tensors hold elements of one input only."""

    def __init__(self, inputs: Sequence[Tensor]) -> None:
        self._holds: dict[Tensor, Tensor] = {tensor: tensor for tensor in inputs}
        self._limit: dict[Tensor, int] = {}
        self._divides: set[Tensor] = set()
        self._factors: dict[Tensor, int] = {}
        self._converts = False
        self._least: set[Tensor] = set()

    def of(self, tensor: Tensor) -> InputUse:
        limit, divides = self._limit.get(tensor), tensor in self._divides
        converted = self._converts and dtypes.is_integer(tensor.dtype)
        sign = 1 if tensor in self._least else -1
        return InputUse(limit, divides, self._factors.get(tensor, 1), converted, sign)

    def visit(self, op: ComputeOp, body: Expr) -> None:
        """Take in the expression of an element."""
        if not isinstance(body, ir.Reduce):
            self._visit_copy(op, body)
        for node in walk_expr(body):
            match node:
                case ir.Read():
                    self._visit_read(node)
                case ir.BinaryOp(op="/" | "//" | "%", b=divisor):
                    self._divides.update(self._inputs(divisor))
                case ir.Cast(dtype=dtype, a=a) if dtypes.is_float(dtype):
                    self._converts |= dtypes.is_integer(a.dtype) and any(True for _ in reads(a))
                case ir.Reduce(combiner=combiner) if combiner.name == "min":
                    self._least |= self._inputs(node)
                case ir.Reduce(combiner=combiner, sources=sources) if combiner.name == "sum":
                    domains = (axis.dom for axis in op.reduce_axis)
                    terms = math.prod([_constant(dom.extent) for dom in domains if dom])
                    for source in sources:
                        self._visit_terms(source, terms)

    def _visit_copy(self, op: ComputeOp, body: Expr) -> None:
        """Note that a tensor holds elements of one input, moved or converted as by packing."""
        read = {self._holds.get(node.tensor) for node in reads(body)}
        (held,) = read if len(read) == 1 else (None,)
        if held is not None:
            self._holds.update(dict.fromkeys(op.outputs, held))

    def _visit_read(self, read: ir.Read) -> None:
        for index, extent in zip(read.children, read.tensor.extents, strict=True):
            limit = _constant(extent)
            if not isinstance(_plain(index), ir.Read):
                limit = min(limit, _SMALL)
            for tensor in self._inputs(index):
                self._limit[tensor] = min(limit, self._limit.get(tensor, limit))

    def _visit_terms(self, term: Expr, terms: int) -> None:
        """Note the factor of each product in the terms of a sum that is to be scaled."""
        for node in walk_expr(term):
            if isinstance(node, ir.BinaryOp) and node.op == "*":
                left, right = (self._inputs(side) for side in (node.a, node.b))
                for tensor in right or left:
                    self._factors[tensor] = max(terms, self._factors.get(tensor, 1))

    def _inputs(self, value: Expr) -> set[Tensor]:
        """Return the inputs whose elements are read in an expression."""
        found = (self._holds.get(read.tensor) for read in reads(value))
        return {tensor for tensor in found if tensor is not None}


def _plain(index: Expr) -> Expr:
    """Return an index without conversions around it."""
    while isinstance(index, ir.Cast):
        index = index.a
    return index


def _constant(size: Expr) -> int:
    return int(evaluate(size))
