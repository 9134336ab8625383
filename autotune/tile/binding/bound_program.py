"""A Tile function bound to sizes and types: the input of evaluators and compilers.

All names are resolved, and every type and conversion is explicit. Only broadcasting is implicit, by
NumPy's rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from autotune.tile.index_sets.affine_forms import Affine
from autotune.tile.index_sets.index_set import IndexSet
from autotune.tile.syntax.syntax_tree import Aggregation, Combination, Contraction, Function


@dataclass(frozen=True, slots=True)
class TensorType:
    """Shape (positive ints, () for a scalar) and dtype name of a tensor."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A number of a type, of shape ()."""

    value: int | float | bool
    type: TensorType


@dataclass(frozen=True, slots=True)
class Ref:
    """A whole tensor of the program."""

    tensor: str
    type: TensorType


@dataclass(frozen=True, slots=True)
class Apply:
    """An operation on every element."""

    #: ``+ - * /`` and comparisons (of operands of one type), "neg", "select" (condition, then,
    #: otherwise), "cast" (to the dtype of `type`), "reshape" (row-major, to the shape of `type`),
    #: "index" (along an axis of its own shape; it reads nothing), "shape" (constant numbers; it
    #: reads nothing), "gather" (rows of the first operand by the numbers of the second, clamped to
    #: the existing rows), or the name of a function of one type.
    op: str
    #: Operands, whose shapes broadcast to that of `type`.
    args: tuple[Value, ...]
    #: Of the result.
    type: TensorType
    #: Of "index" its axis, of "shape" the sizes; else ().
    numbers: tuple[int, ...] = ()


Value: TypeAlias = Constant | Ref | Apply


@dataclass(frozen=True, slots=True)
class Elementwise:
    """``name = value``."""

    name: str
    type: TensorType
    value: Value

    @property
    def operands(self) -> set[str]:
        """Tensors that it reads."""
        return set(_refs(self.value))


@dataclass(frozen=True, slots=True)
class AffineRead:
    """A tensor at one index expression per dimension."""

    tensor: str
    indices: tuple[Affine, ...]


@dataclass(frozen=True, slots=True)
class Contract:
    """One contraction."""

    #: The tensor it defines. Elements without a valid index set are those of `default`.
    name: str
    type: TensorType
    #: ``+ * > < =``.
    aggregation: Aggregation
    #: "" of one read, "*" and "+" of two, "==" whether two are equal, "?" of three: the third if
    #: the first two are equal, else 0.
    combination: Combination
    #: Names of the indices, those of the output first.
    indices: tuple[str, ...]
    #: The element that an index set writes, one expression per dimension.
    output: tuple[Affine, ...]
    #: Its reads.
    reads: tuple[AffineRead, ...]
    #: The valid index sets.
    domain: IndexSet
    #: Type of a combined value: reads are converted to it (for "?" the third alone; the first two,
    #: as those of "==", are compared in their common type, `compared_dtype`).
    value_dtype: str
    compared_dtype: str
    #: Type in which values are aggregated; the result is converted to ``type.dtype``.
    accumulator: str
    #: The tensor with the elements that no index set writes; they are 0 if it is "".
    default: str
    #: The statement in the source, for messages.
    statement: Contraction

    @property
    def operands(self) -> set[str]:
        """Tensors that it reads."""
        return {read.tensor for read in self.reads} | ({self.default} if self.default else set())


Step: TypeAlias = Elementwise | Contract


@dataclass(frozen=True, slots=True)
class Program:
    """A function with all sizes and types known."""

    #: The source function.
    function: Function
    #: Names of tensors, in order.
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    #: Value of every dimension, computed ones included.
    sizes: Mapping[str, int]
    #: Shape and dtype of every tensor.
    types: Mapping[str, TensorType]
    #: The statements that outputs need, in an order in which they can be computed.
    steps: tuple[Step, ...]


def needed(steps: Sequence[Step], outputs: Sequence[str]) -> tuple[Step, ...]:
    """Return the steps that some tensors depend on, in their order."""
    wanted = set(outputs)
    kept: list[Step] = []
    for step in reversed(steps):
        if step.name in wanted:
            kept.append(step)
            wanted |= step.operands
    return tuple(reversed(kept))


def _refs(value: Value) -> Iterator[str]:
    if isinstance(value, Ref):
        yield value.tensor
    elif isinstance(value, Apply):
        for argument in value.args:
            yield from _refs(argument)
