"""Writes statements as Python source: the other half of the interpreter.

Loops become loops over lists. If the threads of a block have barriers, the code of one thread
becomes a generator, which `block_threads.ThreadBlock` runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from autotune.errors import IRError
from autotune.ir import dtypes
from autotune.ir.evaluate.block_threads import RaceCheckedList
from autotune.ir.evaluate.expr_to_python import PythonSource
from autotune.ir.expr import Buffer, Expr
from autotune.ir.stmt import (
    Allocate,
    Arrive,
    Barrier,
    CopyAhead,
    For,
    If,
    LoopKind,
    Produce,
    Seq,
    Stmt,
    Store,
)
from autotune.ir.visitor import all_allocated, is_thread_loop, walk

#: CPython allows 20 nested blocks in one function; deeper loops are in an inner function.
_BLOCKS = 15


def poison(dtype: str) -> Any:
    """Return the initial value of allocated elements: a NaN, or an unusual integer."""
    if dtypes.is_float(dtype):
        return dtypes.rounded(math.nan, dtype)
    return True if dtype == dtypes.BOOL else dtypes.wrapped(0xDEADBEEFDEADBEEF, dtype)


class FunctionSource(PythonSource):
    """Python source of a whole function: statements over lists.

    The written function takes a `block_threads.ThreadBlock` named `block`.

    `watched`: whether allocations that threads may share are `RaceCheckedList`.
    """

    def __init__(self, watched: bool = False) -> None:
        super().__init__(lazy=False)
        self.values["Watched"] = RaceCheckedList
        self.watched = watched
        #: Names of the variables that are true for active lanes; empty outside vector conditions.
        self.mask: list[str] = []
        self._nest: list[For] = []  # loops of blocks and threads around
        self._loops: list[str] = []  # other loops around
        self._started = False  # whether stores are copies that go on by themselves
        self._in_step = False  # whether what is written belongs to a generator
        self._barriers = 0

    def add_buffer(self, buffer: Buffer) -> tuple[str, str]:
        """Name a buffer and write the line that computes its number of elements."""
        name, size = self.name("b"), self.name("n")
        factors = self._fragment(buffer.shape)
        self.line(f"{size} = {' * '.join(factors) or '1'}")
        self.buffers[id(buffer)] = name, size
        return name, size

    def _allocate(self, buffer: Buffer) -> None:
        name, size = self.add_buffer(buffer)
        values = f"[{self.constant(poison(buffer.dtype))}] * {size}"
        if self.watched and buffer.scope != "local":
            values = f"Watched({values}, {self.constant(buffer.name)}, block)"
        self.line(f"{name} = {values}")

    def _fragment(self, exprs: Sequence[Expr]) -> list[str]:
        """Texts of exact scalars that one statement needs."""
        self.scopes = [{}]
        self.count_uses(exprs)
        return [self.expr(expr, 0, True) for expr in exprs]

    def _block(self, body: Stmt, blocks: int) -> None:
        self.depth += 1
        start = len(self.lines)
        if blocks and blocks % _BLOCKS == 0:
            inner = self.name("part")
            self._define(inner, "", body, blocks)
            self.line(f"yield from {inner}()" if self._in_step else f"{inner}()")
        else:
            self.write(body, blocks)
        if len(self.lines) == start:
            self.line("pass")
        self.depth -= 1

    def _define(self, name: str, argument: str, body: Stmt, blocks: int) -> None:
        """Write an inner function; it is a generator if threads have barriers."""
        self.line(f"def {name}({argument}):")
        self.depth += 1
        self.line("if False: yield" if self._in_step else "pass")
        self.write(body, blocks)
        self.depth -= 1

    def write(self, stmt: Stmt, blocks: int = 0) -> None:
        """Write a statement that stands inside `blocks` loops."""
        match stmt:
            case Store():
                self._store(stmt)
            case For(kind=LoopKind.THREAD):
                self._thread_loop(stmt, blocks)
            case For(var):
                self._loops.append(var.name)
                self._iterate(stmt, blocks)
                self._loops.pop()
            case If(condition) if condition.lanes > 1:
                self._masked(stmt, blocks)
            case If(condition, then, orelse):
                (test,) = self._fragment([condition])
                self.line(f"if {test}:")
                self._block(then, blocks)
                if orelse is not None:
                    self.line("else:")
                    self._block(orelse, blocks)
            case Seq(stmts):
                for inner in stmts:
                    self.write(inner, blocks)
            case Allocate(buffer, body) if id(buffer) in self.buffers:
                self.write(body, blocks)  # the block's, which is there already
            case Allocate(buffer, body):
                self._allocate(buffer)
                self.write(body, blocks)
                del self.buffers[id(buffer)]
            case Barrier():
                self._barrier()
            case CopyAhead(body):
                self._started = True
                self.write(body, blocks)
                self._started = False
            case Arrive(body):
                self.write(body, blocks)
            case Produce(_, body):
                self.write(body, blocks)
            case _:
                raise IRError(f"unknown statement {type(stmt).__name__}")

    # -- threads ---------------------------------------------------------------------------

    def _iterate(self, loop: For, blocks: int, first: str = "") -> None:
        """Write a loop whose iterations run one after the other, each after the line `first`."""
        (count,) = self._fragment([loop.extent])
        var = self.bind(loop.var)
        self.line(f"for {var} in range({count}):")
        if first:
            self.line(f" {first.format(var)}")
        self._block(loop.body, blocks + 1)
        self.names.pop(id(loop.var), None)

    def _thread_loop(self, loop: For, blocks: int) -> None:
        """Write a loop of blocks or of threads."""
        if self.watched and not self._nest:
            self.line("block.begin_nest()")
        first_of_block = not any(map(is_thread_loop, self._nest))
        self._nest.append(loop)
        if not is_thread_loop(loop):
            tag = self.constant(loop.thread_tag)
            self._iterate(loop, blocks, f"block.enter({tag}, {{}})" if self.watched else "")
            if self.watched:
                self.line(f"block.leave({tag})")
        elif first_of_block:
            self._block_of_threads(loop, blocks)
        else:
            self._threads(loop, blocks)
        self._nest.pop()

    def _block_of_threads(self, loop: For, blocks: int) -> None:
        """Write the outermost thread loop of a block, with its shared allocations."""
        shared = all_allocated(loop.body, "shared")
        for buffer in shared:
            try:
                self._allocate(buffer)
            except IRError as error:
                raise IRError(
                    f"the size of shared buffer {buffer.name!r} differs from thread to thread: "
                    f"{error}"
                ) from error
        self._threads(loop, blocks)
        for buffer in shared:
            del self.buffers[id(buffer)]

    def _threads(self, loop: For, blocks: int) -> None:
        """Write a thread loop: with generators if it has barriers, else as an ordinary loop."""
        if not (self.watched or any(isinstance(s, Barrier) for s in walk(loop.body))):
            self._iterate(loop, blocks)
            return
        (count,) = self._fragment([loop.extent])
        thread, tag = self.name("thread"), self.constant(loop.thread_tag)
        outer, self._in_step = self._in_step, True
        self._define(thread, self.bind(loop.var), loop.body, 0)
        self._in_step = outer
        self.names.pop(id(loop.var), None)
        run = "yield from block.together" if outer else "block.run"
        self.line(f"{run}({tag}, {thread}, {count})")

    def _barrier(self) -> None:
        """Write a barrier; outside thread loops it has no effect."""
        self._barriers += 1
        if self._in_step:
            inside = f" in loop {self._loops[-1]!r}" if self._loops else ""
            self.line(f"yield {self.constant(f'barrier {self._barriers}{inside}')}")

    # -- vectors and stores ----------------------------------------------------------------

    def _masked(self, stmt: If, blocks: int) -> None:
        """Write both sides of a vector condition, each for the lanes that take it."""
        outer = self.mask
        self.scopes = [{}]
        self.count_uses([stmt.condition])
        tests = []
        for lane in range(stmt.condition.lanes):
            tests.append(self.name("m"))
            self.line(f"{tests[lane]} = False")
            with self.where(lane):
                self.line(f"{tests[lane]} = {self.expr(stmt.condition, lane, True)}")
        self._side(tests, stmt.then, blocks)
        if stmt.orelse is not None:
            others = [self.name("m") for _ in tests]
            for lane, (other, test) in enumerate(zip(others, tests, strict=True)):
                self.line(f"{other} = {f'{outer[lane]} and ' if outer else ''}not {test}")
            self._side(others, stmt.orelse, blocks)

    def _side(self, mask: list[str], body: Stmt, blocks: int) -> None:
        """Write `body` for the active lanes of `mask`."""
        outer, self.mask = self.mask, mask
        self.line(f"if {' or '.join(mask)}:")
        self._block(body, blocks)
        self.mask = outer

    @contextmanager
    def where(self, lane: int) -> Iterator[None]:
        """Write lines that only run if `lane` is active."""
        if not self.mask:
            yield
            return
        self.line(f"if {self.mask[lane]}:")
        self.depth += 1
        self.scopes.append({})
        yield
        self.line("pass")
        self.scopes.pop()
        self.depth -= 1

    def _store(self, stmt: Store) -> None:
        buffer, index, value = stmt.buffer, stmt.index, stmt.value
        if value.dtype != buffer.dtype or value.lanes != index.lanes:
            raise IRError(
                f"store to {buffer.name!r} ({buffer.dtype}, {index.lanes} lanes) of "
                f"{value.dtype} with {value.lanes} lanes"
            )
        name, size = self.buffer(buffer)
        self.scopes = [{}]
        self.count_uses((index, value))
        read = []
        for lane in range(index.lanes):
            with self.where(lane):
                text, place = self.expr(value, lane, False), self.expr(index, lane, True)
                # All lanes are read before the first is written.
                read.append((text if index.lanes == 1 else self.atom(text), self.atom(place)))
        what = self.constant(buffer.name)
        for lane, (text, where) in enumerate(read):
            with self.where(lane):
                if self._started:  # undefined until it arrives
                    text = self.constant(poison(buffer.dtype))
                outside = f"outside({what}, {where}, {size}, 'store')"
                self.line(f"if not 0 <= {where} < {size}: {outside}")
                self.line(f"{name}[{where}] = {text}")
