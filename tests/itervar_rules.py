"""The rules of itervar features once more, straight from their text: slow, plain, independent.

A program is loops, stores and reductions across threads over expressions; it comes from statements
of the IR or from a listing. Nothing of `features` or of the lowering to loop nests is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from autotune.ir import dtypes
from autotune.ir import expr as ir
from autotune.ir import stmt as st
from autotune.ir.visitor import child_stmts

OWN = ["BLOCK_X", "BLOCK_Y", "BLOCK_Z", "THREAD_X", "THREAD_Y", "THREAD_Z", "PARALLEL", "UNROLL", "VECTORIZE", "SERIAL"]
AUTOTVM08 = ["BLOCK_X", "BLOCK_Y", "BLOCK_Z", "THREAD_X", "THREAD_Y", "THREAD_Z", "UNROLL", "VECTORIZE", "PARALLEL", "SERIAL", "VTHREAD"]


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


def program_of(stmt: st.Stmt) -> list[Any]:
    """Return the program of a statement."""
    match stmt:
        case st.For():
            kind = "VTHREAD" if stmt.kind is st.LoopKind.VTHREAD else _KINDS.get(stmt.kind, "")
            if stmt.kind is st.LoopKind.THREAD:
                kind = tag_kind(stmt.thread_tag)
            length = int(stmt.extent.value) if isinstance(stmt.extent, ir.Const) else -1
            return [Loop(id(stmt.var), stmt.var.name, kind, length, program_of(stmt.body))]
        case st.Store():
            return [Store(stmt.buffer.name, tree(stmt.index), tree(stmt.value))]
        case st.ThreadReduce():
            return [Values(tuple(map(tree, stmt.operands)))]
        case st.If():
            condition = tree(stmt.condition)
            looked_up = [Values((condition,))] if any(loads_in(condition)) else []
            return [*looked_up, *(s for child in child_stmts(stmt) for s in program_of(child))]
        case _:
            return [s for child in child_stmts(stmt) for s in program_of(child)]


def tag_kind(tag: str) -> str:
    level, _, dimension = tag.partition(".")
    return {"blockIdx": "BLOCK", "threadIdx": "THREAD"}[level] + f"_{dimension.upper()}"


def tree(node: ir.Expr) -> Any:
    match node:
        case ir.Const():
            return Number(node.value)
        case ir.Var():
            return Name(id(node))
        case ir.Load():
            return Load(node.buffer.name, tree(node.index))
        case ir.Binary():
            operands = (tree(node.a), tree(node.b))
            return Apply(node.op, operands, dtypes.is_float(node.dtype))
        case _:
            operands = tuple(map(tree, node.children))
            return Apply(type(node).__name__, operands, floats=False)


def loads_in(node: Any) -> Iterator[Load]:
    if isinstance(node, Load):
        yield node
        yield from loads_in(node.index)
    elif isinstance(node, Apply):
        for operand in node.operands:
            yield from loads_in(operand)


# -- programs from listings ----------------------------------------------------------------------

_TOKEN = re.compile(r"(\d+\.?\d*(?:e[+-]?\d+)?f?)|([A-Za-z_][\w.]*)|(&&|\|\||[<>=!]=|\S)")
_LOOP = re.compile(r"(for|parallel|vectorized|unrolled) \(([\w.]+), 0, (\d+)\) \{")
_ATTR = re.compile(r"// attr \[iter_var\((\S+), .*, (\S+)\)\] (thread_extent|virtual_thread) = (\d+)")
_ALLOCATE = re.compile(r"allocate (\S+)\[(\w+)")
_WORDS = {"for": "SERIAL", "unrolled": "UNROLL", "vectorized": "VECTORIZE", "parallel": "PARALLEL"}


class Listing:
    """Reads a listing of AutoTVM v0.8.

    Parameters
    ----------
    text : str
        Where a thread axis that is open is opened again after a statement, that scope has ended.
    types : dict of str to str
        Element types of the parameters.
    """

    def __init__(self, text: str, types: dict[str, str]) -> None:
        self.lines = [line.strip().replace("tir.", "") for line in text.splitlines()]
        self.types = dict(types)
        self.names: list[Loop] = []
        self.ambiguous = False

    def program(self) -> list[Any]:
        return self.block()

    def block(self) -> list[Any]:
        """Read statements up to the end of a block."""
        body: list[Any] = []
        inner = body
        opened: list[tuple[str, list[Any]]] = []
        after_statement = False
        while self.lines:
            line = self.lines.pop(0)
            if line == "}":
                break
            if allocate := _ALLOCATE.match(line):
                self.types[allocate[1]] = allocate[2]
            elif attr := _ATTR.match(line):
                name, tag, what, extent = attr.groups()
                kind = "VTHREAD" if what == "virtual_thread" else tag_kind(tag)
                if after_statement:
                    while any(other == name for other, _ in opened):
                        _, inner = opened.pop()
                        self.names.pop()
                opened.append((name, inner))
                inner = self.opened(inner, name, kind, int(extent)).body
                after_statement = False
            elif loop := _LOOP.match(line):
                new = self.opened(inner, loop[2], _WORDS[loop[1]], int(loop[3]))
                new.body += self.block()
                self.names.pop()
                after_statement = True
            elif line.startswith("if ("):
                inner += self.block()
                after_statement = True
            elif line:
                inner.append(self.store(line))
                after_statement = True
        del self.names[len(self.names) - len(opened) :]
        return body

    def opened(self, body: list[Any], name: str, kind: str, length: int) -> Loop:
        self.ambiguous |= any(loop.name == name for loop in self.names)
        loop = Loop(object(), name, kind, length)
        body.append(loop)
        self.names.append(loop)
        return loop

    def store(self, line: str) -> Store:
        self.tokens = _TOKEN.findall(line)
        target = self.expr()
        assert self.take() == "=", line
        value = self.expr()
        assert not self.tokens, line
        return Store(target.buffer, target.index, value)

    def take(self) -> str:
        return "".join(self.tokens.pop(0))

    def peek(self) -> str:
        return "".join(self.tokens[0]) if self.tokens else ""

    def expr(self) -> Any:
        number, name, _ = self.tokens[0]
        word = self.take()
        if number:
            return Number(float(word.rstrip("f")))
        if word == "(":
            left = self.expr()
            what = self.take()
            right = self.expr()
            assert self.take() == ")"
            return Apply(what, (left, right), self.floats(left) or self.floats(right))
        assert name, word
        if self.peek() == "[":
            self.take()
            index = self.expr()
            assert self.take() == "]"
            return Load(word, index)
        if self.peek() == "(":
            self.take()
            operands = [self.expr()]
            while self.take() == ",":
                operands.append(self.expr())
            return Apply(word, tuple(operands), word == "float32" or any(map(self.floats, operands)))
        return Name(next(loop.key for loop in reversed(self.names) if loop.name == word))

    def floats(self, node: Any) -> bool:
        """Whether an operand is a float; numbers stand beside something else."""
        if isinstance(node, Load):
            return dtypes.is_float(self.types[node.buffer])
        return isinstance(node, Apply) and node.floats
