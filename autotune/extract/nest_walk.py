"""The walk over a lowered function that finds its loops and accesses, by AutoTVM's rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from autotune.extract.access_strides import ABSENT, Analysis
from autotune.ir import dtypes
from autotune.ir.expr import BinaryOp, Buffer, Call, Cast, Const, Expr, KnobVar, Load, Select, Var
from autotune.ir.stmt import For, If, LoopKind, Stmt, Store, ThreadReduce
from autotune.ir.visitor import child_stmts
from features import VIRTUAL_THREAD, BufferAccess, Loop, LoopNest

_ANNOTATIONS = {
    LoopKind.SERIAL: "SERIAL",
    LoopKind.PARALLEL: "PARALLEL",
    LoopKind.UNROLLED: "UNROLL",
    LoopKind.UNROLL_HINTED: "UNROLL",
    LoopKind.VECTORIZED: "VECTORIZE",
    LoopKind.VTHREAD: VIRTUAL_THREAD,
}
_LEVELS = {"blockIdx": "BLOCK", "threadIdx": "THREAD"}
_COUNTED = {"+": "add", "-": "add", "*": "mul", "/": "div", "//": "div", "%": "div"}


def walked_nest(body: Stmt, analysis: Analysis, names: Mapping[str, str] | None = None) -> LoopNest:
    """Return the loop nest of a function, with an `Amount` for every length, stride and modulus.

    The function is walked in textual order. Guards, producer marks and allocations do not count. A
    store is numbered before its value, which is walked left to right, then its index; a load before
    its index.

    `analysis`: knows lengths and strides.
    `names`: what accesses to a buffer are called, where that is not its name; those of buffers that
    are called alike are numbered together.
    """
    walk = _NestWalk(analysis, names or {})
    walk.visit(body)
    loops = (
        replace(loop, add=counts["add"], mul=counts["mul"], div=counts["div"])
        for loop, counts in zip(walk.loops, walk.counts, strict=True)
    )
    return LoopNest(tuple(loops), tuple(walk.accesses))


class _NestWalk:
    def __init__(self, analysis: Analysis, names: Mapping[str, str]) -> None:
        self.loops: list[Loop] = []
        self.counts: list[dict[str, int]] = []
        self.accesses: list[BufferAccess] = []
        self._analysis = analysis
        self._names = names
        self._vars: list[Var] = []
        self._open: list[int] = []
        self._numbers: dict[str, int] = {}
        self._virtual: set[Var] = set()
        self._held: dict[Expr, tuple[bool, bool]] = {}

    # -- statements ------------------------------------------------------------------------

    def visit(self, node: Stmt) -> None:
        """Walk a statement."""
        if isinstance(node, For):
            self._loop(node)
        elif isinstance(node, Store):
            self._access(node.buffer, node.index, is_store=True)
            self._expr(node.value)
            self._expr(node.index)
        elif isinstance(node, If):
            if self._holds(node.condition)[0]:  # guards on loops do not count
                self._expr(node.condition)
            for child in child_stmts(node):
                self.visit(child)
        elif isinstance(node, ThreadReduce):
            for operand in node.operands:
                self._expr(operand)
        else:
            for child in child_stmts(node):
                self.visit(child)

    def _loop(self, loop: For) -> None:
        if not self._has_row(loop):
            self.visit(loop.body)
            return
        self._analysis.enter(loop.var, loop.extent)
        parent = self._open[-1] if self._open else -1
        length: Any = self._analysis.length(loop.extent)
        self._open.append(len(self.loops))
        depth = len(self._open)
        self._vars.append(loop.var)
        self.counts.append(dict.fromkeys(("add", "mul", "div"), 0))
        self.loops.append(Loop(loop.var.name, _annotation(loop), length, parent, depth, 0, 0, 0))
        self.visit(loop.body)
        self._open.pop()

    def _has_row(self, loop: For) -> bool:
        """Whether a loop is a row: a thread axis in its own scope is not.

        Neither is a virtual thread met before.
        """
        if loop.kind is LoopKind.VTHREAD:
            if loop.var in self._virtual:
                return False
            self._virtual.add(loop.var)
        return all(self._vars[row] is not loop.var for row in self._open)

    # -- expressions -----------------------------------------------------------------------

    def _access(self, buffer: Buffer, index: Expr, is_store: bool) -> None:
        name = self._names.get(buffer.name, buffer.name)
        number = self._numbers.get(name, 0)
        self._numbers[name] = number + 1
        found = self._analysis.touches(index)
        touches = [found.get(self._vars[row], ABSENT) for row in self._open]
        strides: list[Any] = [touch.stride for touch in touches]
        mods: list[Any] = [touch.mod for touch in touches]
        self.accesses.append(
            BufferAccess(
                name,
                number,
                loops=tuple(self._open),
                strides=tuple(strides),
                mods=tuple(mods),
                itemsize=dtypes.itemsize(buffer.dtype),
                is_store=is_store,
            )
        )

    def _holds(self, node: Expr) -> tuple[bool, bool]:
        """Return whether an expression holds loads, and whether it holds floats."""
        found = self._held.get(node)
        if found is None:
            parts = [self._holds(child) for child in node.children]
            loads = isinstance(node, Load) or any(part[0] for part in parts)
            floats = dtypes.is_float(node.dtype) or any(part[1] for part in parts)
            found = self._held[node] = loads, floats
        return found

    def _expr(self, node: Expr) -> None:
        if not any(self._holds(node)):
            return  # loop variables and knobs, of which most of an index is made
        if isinstance(node, Load):
            self._access(node.buffer, node.index, is_store=False)
        elif isinstance(node, BinaryOp) and dtypes.is_float(node.dtype):
            self._count(node)
        chosen = _chosen(node)
        for child in node.children if chosen is None else (chosen,):
            self._expr(child)

    def _count(self, node: BinaryOp) -> None:
        """Charge an operation to the innermost row; division by a constant is a multiplication."""
        kind = _COUNTED.get(node.op)
        if kind is None or not self._open or _is_constant(node):
            return
        if kind == "div" and _is_constant(node.b):
            kind = "mul"
        self.counts[self._open[-1]][kind] += 1


def _chosen(node: Expr) -> Expr | None:
    """Return the branch that an expression always takes, None if there is none."""
    if isinstance(node, Select) or (isinstance(node, Call) and node.name == "if_then_else"):
        condition, true, false = node.children
        if isinstance(condition, Const):
            return true if condition.value else false
    return None


def _is_constant(node: Expr) -> bool:
    """Whether an expression is a constant in the text once the knobs have values."""
    match node:
        case Const() | KnobVar():
            return True
        case BinaryOp():
            folds = node.op in _COUNTED or dtypes.is_integer(node.dtype)
            return folds and _is_constant(node.a) and _is_constant(node.b)
        case Cast():
            return _is_constant(node.a)
        case _:
            chosen = _chosen(node)
            return chosen is not None and _is_constant(chosen)


def _annotation(loop: For) -> str:
    if loop.kind is not LoopKind.THREAD:
        return _ANNOTATIONS[loop.kind]
    level, _, dimension = loop.thread_tag.partition(".")
    return f"{_LEVELS[level]}_{dimension.upper()}"
