"""Tensors and the operations that define them: placeholders and element-wise computes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NoReturn

from autotune.errors import IRError, ScheduleError
from autotune.ir import dtypes
from autotune.ir.axes import IterVar
from autotune.ir.expr import Const, Expr, KnobVar, Operators, Read, Reduce, SizeVar
from autotune.ir.ops import cast, convert, is_convertible
from autotune.ir.visitor import free_vars, reads, walk_expr

#: A size: a Python int where it is constant, else an expression over sizes and knobs.
Size = int | Expr


def as_size(value: Any, what: str) -> Expr:
    """Return a dimension as an integer expression, or refuse it."""
    if not is_convertible(value):
        raise IRError(f"{what} must be an integer, got {value!r}")
    try:
        expr = convert(value)
    except IRError as error:
        raise IRError(f"{what}: {error}") from None
    if not dtypes.is_index(expr.dtype):
        raise IRError(f"{what} must be an integer, got {value!r} of type {expr.dtype}")
    if isinstance(expr, Const) and expr.value < 0:
        raise IRError(f"{what} must not be negative, got {expr.value}")
    return expr


class Axes(tuple[IterVar, ...]):
    """The axes of an operation; the error for a missing axis lists the existing ones."""

    owner: Operation
    #: "axis" or "reduce_axis".
    kind: str

    @classmethod
    def of(cls, owner: Operation, kind: str, axes: Sequence[IterVar] = ()) -> Axes:
        """Return axes of an operation."""
        made = cls(axes)
        made.owner, made.kind = owner, kind
        return made

    def __getitem__(self, index: Any) -> Any:
        try:
            return super().__getitem__(index)
        except IndexError:
            raise ScheduleError(f"{self.kind}[{index}]: {self.owner.axes_told(self)}") from None


class Operation:
    """The definition of one or more tensors.

    Attributes
    ----------
    name : str
        Name of the operation and of its first output.
    outputs : tuple of Tensor
        Tensors it defines.
    axis, reduce_axis : tuple of IterVar
        Its spatial axes and those it reduces over; none for what is not computed.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.outputs: tuple[Tensor, ...] = ()
        self.axis: tuple[IterVar, ...] = Axes.of(self, "axis")
        self.reduce_axis: tuple[IterVar, ...] = Axes.of(self, "reduce_axis")

    def axes_told(self, axes: Axes) -> str:
        """Return the names of the axes, for an error."""
        if not axes:
            return f"operation {self.name!r} has none"
        names = ", ".join(axis.name for axis in axes)
        return f"operation {self.name!r} has {len(axes)}: {names}"

    def output(self, index: int = 0) -> Tensor:
        """Return one of the tensors it defines."""
        return self.outputs[index]

    @property
    def input_tensors(self) -> list[Tensor]:
        """Tensors it reads, in order of first appearance."""
        return []

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


def producers_first(outputs: Sequence[Operation]) -> list[Operation]:
    """Return some operations and all their producers, each after the operations that it reads."""
    order: list[Operation] = []
    seen: set[Operation] = set()
    stack = [(op, False) for op in reversed(outputs)]
    while stack:
        op, inputs_done = stack.pop()
        if inputs_done:
            order.append(op)
        elif op not in seen:
            seen.add(op)
            stack.append((op, True))
            stack += [(tensor.op, False) for tensor in reversed(op.input_tensors)]
    return order


class PlaceholderOp(Operation):
    """An array given by the caller."""

    def __init__(self, name: str, shape: tuple[Expr, ...], dtype: str) -> None:
        super().__init__(name)
        self.outputs = (Tensor(self, 0, shape, dtype, name),)

    def axes_told(self, axes: Axes) -> str:
        """Return why there are no axes."""
        return (
            f"{self.name!r} is a placeholder, which is given and not computed, so it has no loops; "
            "schedule what reads it, or if it is the state of a scan, the scan's update and init"
        )


class ComputeOp(Operation):
    """Elements given by one expression each over the axes.

    Attributes
    ----------
    axis : tuple of IterVar
        One spatial axis per dimension.
    reduce_axis : tuple of IterVar
        Axes that the body reduces over.
    body : tuple of Expr
        One expression per output.
    tag : str
        A mark by which code that schedules finds it.
    is_for_cell : bool
        Whether some reads leave their tensors but in the cell of a scan.
    """

    is_for_cell = False

    def __init__(
        self,
        name: str,
        axis: tuple[IterVar, ...],
        body: tuple[Expr, ...],
        outputs: tuple[Tensor, ...] | None = None,
        tag: str = "",
    ) -> None:
        super().__init__(name)
        self.tag = tag
        self.axis = Axes.of(self, "axis", axis)
        self.body = body
        over = body[0].axes if isinstance(body[0], Reduce) else ()
        self.reduce_axis = Axes.of(self, "reduce_axis", over)
        _check_body(name, body)
        _check_variables(name, (*axis, *self.reduce_axis), body)
        shape = tuple(a.dom.extent for a in axis if a.dom is not None)
        self.outputs = outputs or tuple(
            Tensor(self, i, shape, e.dtype, name if len(body) == 1 else f"{name}.v{i}")
            for i, e in enumerate(body)
        )

    def with_body(self, body: tuple[Expr, ...]) -> ComputeOp:
        """Return the operation that defines the same tensors by another body."""
        return ComputeOp(self.name, self.axis, body, self.outputs, self.tag)

    @property
    def input_tensors(self) -> list[Tensor]:
        """Tensors it reads, in the order in which their elements are looked up."""
        return list(self._input_tensors)

    @cached_property
    def _input_tensors(self) -> tuple[Tensor, ...]:
        found: dict[int, Tensor] = {}
        for expr in self.body:
            _look_up(expr, found)
        return tuple(found.values())


def _look_up(expr: Expr, found: dict[int, Tensor]) -> None:
    """Add the tensors read in an expression; tensors in the index of a read come before it."""
    for read in reads(expr):
        if id(read.tensor) not in found:
            for index in read.children:
                _look_up(index, found)
            found.setdefault(id(read.tensor), read.tensor)


def _check_body(name: str, body: tuple[Expr, ...]) -> None:
    for expr in body:
        inner = list(walk_expr(expr))[1:]
        if any(isinstance(node, Reduce) for node in inner):
            raise IRError(
                f"compute {name!r}: a reduction must be the whole expression of a compute; "
                "give it a compute of its own and read that"
            )
    # Reductions of several values are one node but for `index`, and interning shows that.
    whole = [
        Reduce(e.combiner, e.sources, e.axes, e.condition) if isinstance(e, Reduce) else None
        for e in body
    ]
    if any(node is not whole[0] for node in whole):
        raise IRError(
            f"compute {name!r}: values that are not parts of one reduction cannot share a "
            "compute; give each a compute of its own"
        )


def _check_variables(name: str, axes: tuple[IterVar, ...], body: tuple[Expr, ...]) -> None:
    own = {axis.var for axis in axes}
    for expr in body:
        for var in free_vars(expr):
            if var not in own and not isinstance(var, (SizeVar, KnobVar)):
                raise IRError(
                    f"compute {name!r}: {var.name!r} is neither one of its indices nor an axis "
                    "that it reduces over"
                )


class Tensor(Operators):
    """A multi-dimensional array defined by an operation.

    Attributes
    ----------
    op : Operation
        What defines it.
    value_index : int
        Which output of `op` it is.
    shape : tuple of int or Expr
        Its sizes; ints where they are constant.
    dtype : str
        Element type.
    """

    def __init__(
        self, op: Operation, value_index: int, shape: tuple[Expr, ...], dtype: str, name: str
    ) -> None:
        self.op = op
        self.value_index = value_index
        self.extents = shape
        self.dtype = dtypes.check(dtype)
        self.name = name

    @property
    def shape(self) -> tuple[Size, ...]:
        """Sizes, as ints where they are constant."""
        return tuple(int(e.value) if isinstance(e, Const) else e for e in self.extents)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.extents)

    def __expr__(self) -> Expr:
        if self.ndim:
            raise IRError(
                f"tensor {self.name!r} has {self.ndim} dimensions: index it, as in "
                f"{self.name}[{', '.join('ijklmn'[: self.ndim])}]"
            )
        return Read(self, ())

    def __getitem__(self, indices: Any) -> Expr:
        return self(*(indices if isinstance(indices, tuple) else (indices,)))

    def __iter__(self) -> NoReturn:
        """Refuse: without this, Python would read elements 0, 1, 2, ... without end."""
        raise IRError(f"tensor {self.name!r} cannot be iterated over: index it in a compute")

    def __call__(self, *indices: Any) -> Expr:
        """Return the element at `indices` (integers, axes or expressions)."""
        if len(indices) != self.ndim:
            raise IRError(
                f"tensor {self.name!r} has {self.ndim} dimensions, got {len(indices)} indices"
            )
        return Read(self, tuple(self._index(n, convert(index)) for n, index in enumerate(indices)))

    def _index(self, position: int, expr: Expr) -> Expr:
        """Return an integer, converted to an index type that can hold it."""
        if not dtypes.is_integer(expr.dtype):
            raise IRError(
                f"index {position} of tensor {self.name!r} must be an integer, "
                f"got `{expr}` of type {expr.dtype}"
            )
        if dtypes.is_index(expr.dtype):
            return expr
        return cast("int32" if dtypes.holds("int32", expr.dtype) else "int64", expr)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"<tensor {self.name}: {self.dtype} {list(self.shape)}>"
