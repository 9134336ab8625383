"""The rules of itervar features once more, straight from their text: slow, plain, independent.

A program is loops, stores and reductions across threads over expressions; it comes from statements
of the IR, or from a listing (`itervar_listings`). Nothing of `features` is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from autotune.ir import dtypes
from autotune.ir import expr as ir
from autotune.ir import stmt as st
from autotune.ir.visitor import child_stmts

_HARDWARE = ("BLOCK_X", "BLOCK_Y", "BLOCK_Z", "THREAD_X", "THREAD_Y", "THREAD_Z")
OWN = (*_HARDWARE, "PARALLEL", "UNROLL", "VECTORIZE", "SERIAL")
AUTOTVM08 = (*_HARDWARE, "UNROLL", "VECTORIZE", "PARALLEL", "SERIAL", "VTHREAD")


@dataclass(frozen=True)
class Number:
    value: float


@dataclass(frozen=True)
class Name:
    key: Any


@dataclass(frozen=True)
class Load:
    buffer: str
    index: Any


@dataclass(frozen=True)
class Apply:
    """An operator or a call; `floats` tells whether its result is a float."""

    what: str
    operands: tuple[Any, ...]
    floats: bool


@dataclass(frozen=True)
class Store:
    buffer: str
    index: Any
    value: Any


@dataclass(frozen=True)
class Values:
    """Expressions that are evaluated for an effect."""

    exprs: tuple[Any, ...]


@dataclass
class Loop:
    key: Any
    name: str
    kind: str
    length: int
    body: list[Any] = field(default_factory=list)


# -- the rules -----------------------------------------------------------------------------------


@dataclass
class Touch:
    stride: int
    count: int = 1
    reuse: int = 1
    base: tuple[int, int] | None = None
    of_threads: tuple[int, int] = (0, 0)


@dataclass
class Row:
    loop: Loop
    level: int
    topdown: int
    add: int = 0
    mul: int = 0
    div: int = 0
    bottomup: int = -1
    touches: dict[str, Touch] = field(default_factory=dict)


class Rules:
    """Evaluates the rules for a program.

    Parameters
    ----------
    autotvm08 : bool
        Whether symbolic lengths are the factor -1, as in AutoTVM v0.8; else products with one
        are -1.
    stride : callable, optional
        Takes row number, access name and the stride by the text, and returns what to go on with.
    """

    def __init__(
        self, autotvm08: bool = True, stride: Callable[[int, str, int], int] | None = None
    ) -> None:
        self.autotvm08 = autotvm08
        self.stride = stride or (lambda _row, _access, own: own)
        self.rows: list[Row] = []
        self.open: list[Row] = []
        self.numbers: dict[str, int] = {}
        self.virtual: set[Any] = set()

    def times(self, a: int, b: int) -> int:
        return -1 if min(a, b) < 0 and not self.autotvm08 else a * b

    def walk(self, program: Sequence[Any]) -> None:
        for stmt in program:
            if isinstance(stmt, Loop):
                self.loop(stmt)
            elif isinstance(stmt, Store):
                self.access(stmt.buffer, stmt.index)
                self.evaluate(stmt.value)
                self.evaluate(stmt.index)
            else:
                for expr in stmt.exprs:
                    self.evaluate(expr)

    def loop(self, loop: Loop) -> None:
        again = loop.kind == "VTHREAD" and loop.key in self.virtual
        if again or any(row.loop.key == loop.key for row in self.open):
            self.walk(loop.body)
            return
        if loop.kind == "VTHREAD":
            self.virtual.add(loop.key)
        around = self.open[-1].topdown if self.open else 1
        row = Row(loop, len(self.open) + 1, self.times(around, loop.length))
        self.rows.append(row)
        self.open.append(row)
        self.walk(loop.body)
        self.close(row)

    def close(self, row: Row) -> None:
        for name, own in row.touches.items():
            for outer in self.open:
                touch = outer.touches[name]
                if own.stride:
                    touch.count = self.times(touch.count, row.loop.length)
                else:
                    touch.reuse = self.times(touch.reuse, row.loop.length)
        self.open.pop()
        volumes = [self.times(t.count, t.reuse) for t in row.touches.values()]
        row.bottomup = max([-1, *volumes])
        level = parallel_level(row.loop.kind)
        if self.open and parallel_level(self.open[-1].loop.kind) == level + 1:
            for outer in self.open:
                if parallel_level(outer.loop.kind) == level + 1:
                    for name, own in row.touches.items():
                        outer.touches[name].base = (own.count, own.reuse)
        for touch in row.touches.values():
            if touch.base is not None:
                touch.of_threads = self.over(touch)

    def over(self, touch: Touch) -> tuple[int, int]:
        assert touch.base is not None
        count, reuse = touch.base
        if self.autotvm08 and count <= 0:  # a base is marked by its sign, which this one turns
            return -count, -reuse
        return touch.count // count, touch.reuse // reuse

    def access(self, buffer: str, index: Any) -> None:
        number = self.numbers.get(buffer, 0)
        self.numbers[buffer] = number + 1
        name = f"{buffer}_{number}"
        strides = strides_of(index)
        for row in self.open:
            own = strides.get(row.loop.key, 0)
            place = self.rows.index(row)
            row.touches[name] = Touch(self.stride(place, name, own))

    def evaluate(self, expr: Any) -> None:
        if isinstance(expr, Load):
            self.access(expr.buffer, expr.index)
            self.evaluate(expr.index)
        elif isinstance(expr, Apply):
            self.count(expr)
            for operand in expr.operands:
                self.evaluate(operand)

    def count(self, expr: Apply) -> None:
        if not self.open or not expr.floats:
            return
        row = self.open[-1]
        if expr.what in ("+", "-"):
            row.add += 1
        elif expr.what == "*" or (expr.what == "/" and isinstance(expr.operands[1], Number)):
            row.mul += 1
        elif expr.what in ("/", "%"):
            row.div += 1

    def result(self) -> list[Any]:
        """Return rows as `get_itervar_feature` does, with mod -1."""
        hot = AUTOTVM08 if self.autotvm08 else OWN
        found = []
        for row in self.rows:
            kind = "SERIAL" if row.loop.kind not in hot else row.loop.kind
            code = [int(kind == name) for name in hot]
            touches = [
                (name, t.stride, -1, t.count, t.reuse, *t.of_threads)
                for name, t in sorted(row.touches.items(), key=lambda item: item[0].encode())
            ]
            attr = (row.loop.length, row.level, row.topdown, row.bottomup, *code)
            arith = ("_arith_", row.add, row.mul, row.div)
            found.append((("_itervar_", row.loop.name), ("_attr_", *attr), arith, *touches))
        return found


def rules(program: Sequence[Any], **options: Any) -> list[Any]:
    """Return the rows of a program."""
    found = Rules(**options)
    found.walk(program)
    return found.result()


def parallel_level(kind: str) -> int:
    return 2 if kind.startswith("BLOCK") else int(kind.startswith(("THREAD", "PARALLEL")))


def strides_of(index: Any) -> dict[Any, int]:
    """Return the stride of each variable, in order of appearance."""
    found: dict[Any, int] = {}
    pending = 1

    def visit(node: Any) -> None:
        nonlocal pending
        if isinstance(node, Name):
            if node.key not in found:
                found[node.key], pending = pending, 1
        elif isinstance(node, Load):
            visit(node.index)
        elif isinstance(node, Apply):
            if node.what == "*":
                left, right = node.operands
                if isinstance(left, Name) and isinstance(right, Number):
                    pending = int(right.value)
            for operand in node.operands:
                visit(operand)

    visit(index)
    return found


# -- programs from statements --------------------------------------------------------------------

_KINDS = {
    st.LoopKind.SERIAL: "SERIAL",
    st.LoopKind.PARALLEL: "PARALLEL",
    st.LoopKind.UNROLLED: "UNROLL",
    st.LoopKind.UNROLL_HINTED: "UNROLL",
    st.LoopKind.VECTORIZED: "VECTORIZE",
}


def program_of(stmt: st.Stmt, called: Callable[[str], str] = str) -> list[Any]:
    """Return the program of a statement; `called` says what accesses to a buffer are called."""

    def tree_of(node: ir.Expr) -> Any:
        return tree(node, called)

    match stmt:
        case st.For():
            kind = "VTHREAD" if stmt.kind is st.LoopKind.VTHREAD else _KINDS.get(stmt.kind, "")
            if stmt.kind is st.LoopKind.THREAD:
                kind = tag_kind(stmt.thread_tag)
            length = int(stmt.extent.value) if isinstance(stmt.extent, ir.Const) else -1
            return [Loop(id(stmt.var), stmt.var.name, kind, length, program_of(stmt.body, called))]
        case st.Store():
            return [Store(called(stmt.buffer.name), tree_of(stmt.index), tree_of(stmt.value))]
        case st.ThreadReduce():
            return [Values(tuple(map(tree_of, stmt.operands)))]
        case st.If():
            condition = tree_of(stmt.condition)
            looked_up = [Values((condition,))] if any(loads_in(condition)) else []
            return [*looked_up, *_programs_of(child_stmts(stmt), called)]
        case _:
            return [*_programs_of(child_stmts(stmt), called)]


def _programs_of(stmts: Iterable[st.Stmt], called: Callable[[str], str]) -> Iterator[Any]:
    for stmt in stmts:
        yield from program_of(stmt, called)


def tag_kind(tag: str) -> str:
    level, _, dimension = tag.partition(".")
    return {"blockIdx": "BLOCK", "threadIdx": "THREAD"}[level] + f"_{dimension.upper()}"


def tree(node: ir.Expr, called: Callable[[str], str]) -> Any:
    match node:
        case ir.Const():
            return Number(node.value)
        case ir.Var():
            return Name(id(node))
        case ir.Load():
            return Load(called(node.buffer.name), tree(node.index, called))
        case ir.BinaryOp():
            operands = (tree(node.a, called), tree(node.b, called))
            return Apply(node.op, operands, dtypes.is_float(node.dtype))
        case _:
            operands = tuple(tree(child, called) for child in node.children)
            return Apply(type(node).__name__, operands, floats=False)


def loads_in(node: Any) -> Iterator[Load]:
    if isinstance(node, Load):
        yield node
        yield from loads_in(node.index)
    elif isinstance(node, Apply):
        for operand in node.operands:
            yield from loads_in(operand)
