"""Expressions: immutable, interned nodes, so structurally equal expressions are one object.

With interning (the table is in `interning`) equality is an identity test, memo tables are exact,
and common subexpressions are shared. This file defines the nodes; `ops` has the constructors that
fold constants.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final

from autotune.errors import IRError
from autotune.ir import dtypes
from autotune.ir.interning import find, interned

if TYPE_CHECKING:
    from autotune.ir.axes import Combiner, IterVar

ARITHMETIC: Final = ("+", "-", "*", "/", "//", "%", "min", "max")
COMPARISON: Final = ("==", "!=", "<", "<=", ">", ">=")
LOGIC: Final = ("and", "or")


def _operator(op: str, swap: bool = False) -> Callable[[Any, object], Expr]:
    """Return the method of a binary operator."""

    def method(self: Operators, other: object) -> Expr:
        return self._binary(op, other, swap)

    return method


class Operators:
    """Python operators for every object that can be part of an expression."""

    __slots__ = ()

    def __expr__(self) -> Expr:
        """Return this object as an expression."""
        raise NotImplementedError

    def _binary(self, op: str, other: object, swap: bool = False) -> Any:
        from autotune.ir import ops

        if not ops.is_convertible(other):
            return NotImplemented
        a, b = (other, self) if swap else (self, other)
        return ops.binary(op, a, b)

    __add__, __radd__ = _operator("+"), _operator("+", swap=True)
    __sub__, __rsub__ = _operator("-"), _operator("-", swap=True)
    __mul__, __rmul__ = _operator("*"), _operator("*", swap=True)
    __truediv__, __rtruediv__ = _operator("/"), _operator("/", swap=True)
    __floordiv__, __rfloordiv__ = _operator("//"), _operator("//", swap=True)
    __mod__, __rmod__ = _operator("%"), _operator("%", swap=True)
    __lt__, __le__ = _operator("<"), _operator("<=")
    __gt__, __ge__ = _operator(">"), _operator(">=")

    def __neg__(self) -> Expr:
        from autotune.ir import ops

        return ops.negate(self)

    def equal(self, other: object) -> Expr:
        """Expression that is true where both sides are equal."""
        from autotune.ir import ops

        return ops.binary("==", self, other)

    def astype(self, dtype: str) -> Expr:
        """Expression converted to `dtype` with C semantics."""
        from autotune.ir import ops

        return ops.cast(dtype, self)


class Expr(Operators):
    """Base of all expressions."""

    __slots__ = ("__weakref__", "children", "dtype", "lanes")

    #: Type of one lane.
    dtype: str
    #: 1 for scalars, more for vectors.
    lanes: int
    #: Direct operands, in the order they are written.
    children: tuple[Expr, ...]

    def __expr__(self) -> Expr:
        return self

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        """Return this node over other operands (itself if they are the same)."""
        own = self.children
        same = len(children) == len(own) and all(map(operator.is_, children, own))
        return self if same else self._rebuild(children)

    def _rebuild(self, children: tuple[Expr, ...]) -> Expr:
        raise NotImplementedError

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> Any:
        return self._binary("==", other)

    def __ne__(self, other: object) -> Any:
        return self._binary("!=", other)

    def __bool__(self) -> bool:
        if isinstance(self, Const):
            return bool(self.value)
        raise IRError(
            f"the truth of `{self}` is not known before the program runs: use te.if_then_else, "
            "te.all or te.any instead of if, and or or"
        )

    def __str__(self) -> str:
        from autotune.ir.printer import expr_text

        return expr_text(self)

    def __repr__(self) -> str:
        from autotune.ir.printer import excerpt

        return f"<{excerpt(self)}>"


class Const(Expr):
    """A constant number or truth value."""

    __slots__ = ("value",)
    value: int | float | bool

    def __new__(cls, value: Any, dtype: str) -> Const:
        """Intern the constant; floats are rounded to `dtype`, integers are kept exact."""
        python: int | float | bool
        tag: object
        if dtypes.is_integer(dtype):
            python = tag = int(value)
        elif dtypes.is_float(dtypes.check(dtype)):
            python = float(dtypes.rounded(value, dtype))
            tag = python.hex()
        else:
            python = tag = bool(value)
        key = cls, tag, dtype
        node: Const | None = find(key)
        if node is None:
            node = object.__new__(cls)
            node.value, node.dtype, node.lanes, node.children = python, dtype, 1, ()
            node = interned(key, node)
        return node


def is_const(node: object, value: float) -> bool:
    """Whether an expression is a constant of some value."""
    return isinstance(node, Const) and bool(node.value == value)


_var_ids = itertools.count()


class Var(Expr):
    """A scalar variable; each `Var(...)` is a new variable, even with the same name."""

    __slots__ = ("id", "name")
    name: str
    id: int

    def __new__(cls, name: str, dtype: str = dtypes.INDEX) -> Any:
        """Create a fresh variable."""
        var = object.__new__(cls)
        var.name, var.dtype, var.lanes, var.children = name, dtypes.check(dtype), 1, ()
        var.id = next(_var_ids)
        return var


class SizeVar(Var):
    """A size known only when the built function is called; at least 0.

    `likely`: about what it will be, for schedules that are made by rules; None if nobody says.
    """

    __slots__ = ("likely",)
    likely: int | None

    def __new__(cls, name: str, dtype: str = dtypes.INDEX, likely: int | None = None) -> Any:
        """Create a fresh size."""
        var = super().__new__(cls, name, dtype)
        var.likely = likely
        return var


class KnobVar(Var):
    """A knob of a template: a size known when a configuration is chosen."""

    __slots__ = ("high", "low")
    #: Smallest and largest value over the knob's choices, for interval analysis.
    low: int
    high: int

    def __new__(cls, name: str, low: int, high: int) -> Any:
        """Create a fresh knob variable with values in [low, high]."""
        small = low >= -(2**31) and high < 2**31
        knob = super().__new__(cls, name, "int32" if small else "int64")
        knob.low, knob.high = low, high
        return knob


class BinaryOp(Expr):
    """A binary operation; `op` is one of `ARITHMETIC`, `COMPARISON` and `LOGIC`."""

    __slots__ = ("a", "b", "op")
    op: str
    a: Expr
    b: Expr
    OPS: ClassVar[frozenset[str]] = frozenset(ARITHMETIC + COMPARISON + LOGIC)

    def __new__(cls, op: str, a: Expr, b: Expr) -> BinaryOp:
        """Intern the node; both operands have one type and one number of lanes."""
        key = cls, op, id(a), id(b)
        node: BinaryOp | None = find(key)
        if node is None:
            if a.dtype != b.dtype or a.lanes != b.lanes:
                raise IRError(f"operands of {op!r} differ in type: {a.dtype} and {b.dtype}")
            if op not in cls.OPS:
                raise IRError(f"unknown operation {op!r}")
            node = object.__new__(cls)
            node.op, node.a, node.b, node.children = op, a, b, (a, b)
            node.lanes = a.lanes
            node.dtype = a.dtype if op in ARITHMETIC else dtypes.BOOL
            node = interned(key, node)
        return node

    def _rebuild(self, children: tuple[Expr, ...]) -> Expr:
        return BinaryOp(self.op, *children)


class Not(Expr):
    """Logical negation."""

    __slots__ = ("a",)
    a: Expr

    def __new__(cls, a: Expr) -> Not:
        """Intern the node."""
        key = cls, id(a)
        node: Not | None = find(key)
        if node is None:
            node = object.__new__(cls)
            node.a, node.children, node.dtype, node.lanes = a, (a,), dtypes.BOOL, a.lanes
            node = interned(key, node)
        return node

    def _rebuild(self, children: tuple[Expr, ...]) -> Expr:
        return Not(*children)


class Select(Expr):
    """`true` where `condition` holds, else `false`; both are evaluated."""

    __slots__ = ("condition", "false", "true")
    condition: Expr
    true: Expr
    false: Expr

    def __new__(cls, condition: Expr, true: Expr, false: Expr) -> Select:
        """Intern the node."""
        key = cls, id(condition), id(true), id(false)
        node: Select | None = find(key)
        if node is None:
            if true.dtype != false.dtype:
                raise IRError(f"branches of select differ in type: {true.dtype} and {false.dtype}")
            node = object.__new__(cls)
            node.condition, node.true, node.false = condition, true, false
            node.children = (condition, true, false)
            node.dtype, node.lanes = true.dtype, true.lanes
            node = interned(key, node)
        return node

    def _rebuild(self, children: tuple[Expr, ...]) -> Expr:
        return Select(*children)


class Cast(Expr):
    """Conversion to another type with C semantics."""

    __slots__ = ("a",)
    a: Expr

    def __new__(cls, dtype: str, a: Expr) -> Cast:
        """Intern the node."""
        key = cls, dtype, id(a)
        node: Cast | None = find(key)
        if node is None:
            node = object.__new__(cls)
            node.a, node.children, node.dtype, node.lanes = a, (a,), dtypes.check(dtype), a.lanes
            node = interned(key, node)
        return node

    def _rebuild(self, children: tuple[Expr, ...]) -> Expr:
        return Cast(self.dtype, *children)


class Call(Expr):
    """An intrinsic, such as "exp", "likely" or the lazy "if_then_else"."""

    __slots__ = ("name",)
    name: str

    def __new__(cls, name: str, args: tuple[Expr, ...], dtype: str) -> Call:
        """Intern the node."""
        key = cls, name, dtype, *map(id, args)
        node: Call | None = find(key)
        if node is None:
            node = object.__new__(cls)
            node.name, node.children, node.dtype = name, args, dtypes.check(dtype)
            node.lanes = max((arg.lanes for arg in args), default=1)
            node = interned(key, node)
        return node

    def _rebuild(self, children: tuple[Expr, ...]) -> Expr:
        return Call(self.name, children, self.dtype)


class Read(Expr):
    """An element of a tensor, before lowering decides where the tensor is stored."""

    __slots__ = ("tensor",)
    tensor: Any

    def __new__(cls, tensor: Any, indices: tuple[Expr, ...]) -> Read:
        """Intern the node; `tensor` is a `te.Tensor`."""
        key = cls, id(tensor), *map(id, indices)
        node: Read | None = find(key)
        if node is None:
            node = object.__new__(cls)
            node.tensor, node.children, node.dtype, node.lanes = tensor, indices, tensor.dtype, 1
            node = interned(key, node)
        return node

    def _rebuild(self, children: tuple[Expr, ...]) -> Expr:
        return Read(self.tensor, children)


class Reduce(Expr):
    """Value `index` of a reduction of `sources` over `axes` where `condition` holds."""

    __slots__ = ("axes", "combiner", "condition", "index", "sources")
    combiner: Combiner
    sources: tuple[Expr, ...]
    axes: tuple[IterVar, ...]
    condition: Expr
    index: int

    def __new__(
        cls,
        combiner: Combiner,
        sources: tuple[Expr, ...],
        axes: tuple[IterVar, ...],
        condition: Expr,
        index: int = 0,
    ) -> Reduce:
        """Intern the node."""
        key = cls, id(combiner), *map(id, sources), "over", *map(id, axes), id(condition), index
        node: Reduce | None = find(key)
        if node is None:
            node = object.__new__(cls)
            node.combiner, node.sources, node.axes = combiner, sources, axes
            node.condition, node.index = condition, index
            node.children = (*sources, condition)
            node.dtype, node.lanes = sources[index].dtype, 1
            node = interned(key, node)
        return node

    def _rebuild(self, children: tuple[Expr, ...]) -> Expr:
        return Reduce(self.combiner, children[:-1], self.axes, children[-1], self.index)


class Load(Expr):
    """Element `index` of a flat buffer; a vector index loads a vector."""

    __slots__ = ("buffer", "index")
    buffer: Buffer
    index: Expr

    def __new__(cls, buffer: Buffer, index: Expr) -> Load:
        """Intern the node."""
        key = cls, id(buffer), id(index)
        node: Load | None = find(key)
        if node is None:
            node = object.__new__(cls)
            node.buffer, node.index, node.children = buffer, index, (index,)
            node.dtype, node.lanes = buffer.dtype, index.lanes
            node = interned(key, node)
        return node

    def _rebuild(self, children: tuple[Expr, ...]) -> Expr:
        return Load(self.buffer, *children)


class Ramp(Expr):
    """The vector base, base + stride, ..., of `lanes` values."""

    __slots__ = ("base", "stride")
    base: Expr
    stride: Expr

    def __new__(cls, base: Expr, stride: Expr, lanes: int) -> Ramp:
        """Intern the node."""
        key = cls, id(base), id(stride), lanes
        node: Ramp | None = find(key)
        if node is None:
            node = object.__new__(cls)
            node.base, node.stride, node.children = base, stride, (base, stride)
            node.dtype, node.lanes = base.dtype, lanes
            node = interned(key, node)
        return node

    def _rebuild(self, children: tuple[Expr, ...]) -> Expr:
        return Ramp(children[0], children[1], self.lanes)


class Broadcast(Expr):
    """A scalar repeated over `lanes` lanes."""

    __slots__ = ("value",)
    value: Expr

    def __new__(cls, value: Expr, lanes: int) -> Broadcast:
        """Intern the node."""
        key = cls, id(value), lanes
        node: Broadcast | None = find(key)
        if node is None:
            node = object.__new__(cls)
            node.value, node.children, node.dtype, node.lanes = value, (value,), value.dtype, lanes
            node = interned(key, node)
        return node

    def _rebuild(self, children: tuple[Expr, ...]) -> Expr:
        return Broadcast(children[0], self.lanes)


class Buffer:
    """Storage that loads and stores refer to, addressed by one flat element index."""

    __slots__ = ("__weakref__", "dtype", "name", "scope", "shape", "strides")

    def __init__(
        self,
        name: str,
        dtype: str,
        shape: tuple[Expr, ...],
        scope: str = "global",
        strides: tuple[SizeVar, ...] | None = None,
    ) -> None:
        #: Strides in elements of a parameter whose layout each call gives. For other buffers
        #: indices contain the layout, which is row-major by default.
        self.strides = strides
        #: Name in listings and sources; unique within a function after lowering.
        self.name = name
        #: Element type.
        self.dtype = dtypes.check(dtype)
        #: Extents, row-major.
        self.shape = shape
        #: "global", "shared" or "local".
        self.scope = scope

    @property
    def elements(self) -> int | None:
        """Number of elements; None if it is known only at run time."""
        sizes = [int(extent.value) for extent in self.shape if isinstance(extent, Const)]
        return math.prod(sizes) if len(sizes) == len(self.shape) else None

    def __repr__(self) -> str:
        return f"<buffer {self.name}: {self.dtype} {list(self.shape)} in {self.scope}>"
