"""A lowered program with another type in place of its floats.

In float64 it computes what the program means without what its own types round: values between two
operations are not rounded, and a conversion to a narrower float changes nothing. Constants and
inputs keep the values that they have in their own types. Integers stay as they are, and so does
what makes an integer of a float: it is computed from the precise float.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from autotune.ir import dtypes
from autotune.ir.expr import BinaryOp, Buffer, Call, Cast, Const, Expr, Load
from autotune.ir.stmt import Allocate, PrimFunc, Stmt, Store
from autotune.ir.visitor import Rewriter, all_written, stmt_exprs, walk, walk_expr

# Functions of floats whose results jump.
_STEPS = frozenset({"floor", "ceil", "round", "trunc", "fmod"})


def with_floats(function: PrimFunc, dtype: str) -> PrimFunc:
    """Return a function that computes in one type of floats, and takes and returns it.

    function: as `lower_schedule` makes it.
    dtype: "float32" or "float64".
    """
    rewriter = _Floats(dtype)
    return replace(
        function,
        params=tuple(map(rewriter.buffer, function.params)),
        outputs=frozenset(map(rewriter.buffer, function.outputs)),
        body=rewriter.stmt(function.body),
    )


def float_types(function: PrimFunc) -> frozenset[str]:
    """Return the types of floats that a function takes, computes or returns."""
    types = {buffer.dtype for buffer in function.params}
    types |= {node.dtype for node in _nodes(function)}
    return frozenset(filter(dtypes.is_float, types))


def has_computed_positions(function: PrimFunc) -> bool:
    """Whether what is computed decides which elements are read, not the inputs alone.

    A float that is not rounded as its own type is could lead to an element that does not exist.
    """
    computed = all_written(function.body)
    return any(
        dtypes.is_float(node.dtype) or (isinstance(node, Load) and node.buffer in computed)
        for index in _indices(function.body)
        for node in walk_expr(index)
    )


def has_jumps(function: PrimFunc) -> bool:
    """Whether a function compares floats or makes integers of them."""
    return any(
        any(dtypes.is_float(operand.dtype) for operand in node.children) and _is_jump(node)
        for node in _nodes(function)
    )


def _is_jump(node: Expr) -> bool:
    return not dtypes.is_float(node.dtype) or (isinstance(node, Call) and node.name in _STEPS)


def intermediate_type(function: PrimFunc) -> str | None:
    """Return the least precise type that results are rounded to on the way to the outputs.

    An output that is stored, and not read again, is rounded once, which counts as none.
    """
    read = {node.buffer for node in _nodes(function) if isinstance(node, Load)}
    last = {
        stmt.value
        for stmt in walk(function.body)
        if isinstance(stmt, Store) and stmt.buffer in function.outputs - read
    }
    found = (node.dtype for node in _nodes(function) if node not in last and _rounds(node))
    return max(found, key=dtypes.epsilon, default=None)


def _rounds(node: Expr) -> bool:
    """Whether a value may be rounded to its type, which is a float."""
    if not dtypes.is_float(node.dtype):
        return False
    match node:
        case BinaryOp(op=op):
            return op not in ("min", "max")
        case Cast(a=a):
            is_float = dtypes.is_float(a.dtype)
            return not is_float or dtypes.epsilon(a.dtype) < dtypes.epsilon(node.dtype)
        case Call(name=name):
            return name not in ("if_then_else", "abs")
    return False


def _nodes(function: PrimFunc) -> Iterator[Expr]:
    for stmt in walk(function.body):
        for expr in stmt_exprs(stmt):
            yield from walk_expr(expr)


def _indices(body: Stmt) -> Iterator[Expr]:
    for stmt in walk(body):
        if isinstance(stmt, Store):
            yield stmt.index
        for expr in stmt_exprs(stmt):
            yield from (node.index for node in walk_expr(expr) if isinstance(node, Load))


class _Floats(Rewriter):
    """Replaces all types of floats by one."""

    def __init__(self, dtype: str) -> None:
        super().__init__()
        self._dtype = dtype
        self._buffers: dict[Buffer, Buffer] = {}

    def buffer(self, old: Buffer) -> Buffer:
        """Return the buffer in place of one."""
        if not dtypes.is_float(old.dtype):
            return old
        if old not in self._buffers:
            made = Buffer(old.name, self._dtype, old.shape, old.scope, old.strides)
            self._buffers[old] = made
        return self._buffers[old]

    def _type(self, old: str) -> str:
        return self._dtype if dtypes.is_float(old) else old

    def visit_Const(self, node: Const) -> Expr:
        """Keep the value."""
        return Const(node.value, self._type(node.dtype))

    def visit_Cast(self, node: Cast) -> Expr:
        """Convert, unless that would be from a float to a float."""
        operand, dtype = self.expr(node.a), self._type(node.dtype)
        return operand if operand.dtype == dtype else Cast(dtype, operand)

    def visit_Call(self, node: Call) -> Expr:
        """Apply the function."""
        return Call(node.name, tuple(map(self.expr, node.children)), self._type(node.dtype))

    def visit_Load(self, node: Load) -> Expr:
        """Load the other type."""
        return Load(self.buffer(node.buffer), self.expr(node.index))

    def visit_Store(self, node: Store) -> Stmt:
        """Store the other type."""
        return Store(self.buffer(node.buffer), self.expr(node.index), self.expr(node.value))

    def visit_Allocate(self, node: Allocate) -> Stmt:
        """Make room for the other type."""
        return Allocate(self.buffer(node.buffer), self.stmt(node.body))
