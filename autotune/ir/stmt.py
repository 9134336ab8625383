"""Statements and functions: what lowering produces and backends consume.

Loops start at 0. A function is a body over buffers, which callers pass, and sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from autotune.ir.axes import Combiner
from autotune.ir.expr import Buffer, Expr, SizeVar, Var


class LoopKind(StrEnum):
    """How the iterations of a loop are carried out."""

    SERIAL = "serial"
    PARALLEL = "parallel"
    VECTORIZED = "vectorized"
    UNROLLED = "unrolled"
    #: Serial, with a hint to the backend to unroll it.
    UNROLL_HINTED = "unroll_hinted"
    THREAD = "thread"
    VTHREAD = "vthread"


class Stmt:
    """Base of all statements."""

    __slots__ = ()

    def __str__(self) -> str:
        from autotune.ir.printer import stmt_text

        return stmt_text(self)


@dataclass(frozen=True, eq=False, slots=True)
class Store(Stmt):
    """`buffer[index] = value`; a vector index stores a vector."""

    buffer: Buffer
    index: Expr
    value: Expr


@dataclass(frozen=True, eq=False, slots=True)
class For(Stmt):
    """Run `body` for var = 0, ..., extent - 1.

    `thread_tag` names the hardware axis for kinds THREAD and VTHREAD.
    """

    var: Var
    extent: Expr
    kind: LoopKind
    body: Stmt
    thread_tag: str = ""

    def with_body(self, body: Stmt) -> For:
        """Return this loop around another body (itself if it is the same)."""
        if body is self.body:
            return self
        return For(self.var, self.extent, self.kind, body, self.thread_tag)


@dataclass(frozen=True, eq=False, slots=True)
class If(Stmt):
    """Run `then` where `condition` holds, else `orelse`.

    A vector condition is a mask: `then` runs once, for the lanes where it holds, if there are any;
    then `orelse` likewise for the others. Vector loads and stores inside, all of as many lanes,
    touch only what their active lanes touch.
    """

    condition: Expr
    then: Stmt
    orelse: Stmt | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Seq(Stmt):
    """Run statements in order; empty for no operation."""

    stmts: tuple[Stmt, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Allocate(Stmt):
    """Make `buffer` available, with undefined contents, within `body`."""

    buffer: Buffer
    body: Stmt


@dataclass(frozen=True, eq=False, slots=True)
class Produce(Stmt):
    """Mark `body` as what computes the operation `name`."""

    name: str
    body: Stmt


@dataclass(frozen=True, eq=False, slots=True)
class Barrier(Stmt):
    """Wait until all threads of the block are here, and see what they wrote to shared storage.

    Stands where all threads of a block come or none.
    """


@dataclass(frozen=True, eq=False, slots=True)
class CopyAhead(Stmt):
    """Start to make the stores of `body`, which go on by themselves.

    From here to the `Arrive` with these stores, what they write is undefined. Neither they nor what
    they read may be touched by others meanwhile.
    """

    body: Stmt


@dataclass(frozen=True, eq=False, slots=True)
class Arrive(Stmt):
    """Wait until all that this thread started by `CopyAhead` is done.

    Attributes
    ----------
    body : Stmt
        The stores that were started since the last `Arrive`.
    """

    body: Stmt


@dataclass(frozen=True, eq=False, slots=True)
class ThreadReduce(Stmt):
    """Combine one value of each thread along some thread axes, for all these threads.

    Attributes
    ----------
    combiner : Combiner
        How values combine.
    operands : tuple of Expr
        This thread's values, one for each result of the combiner.
    results : tuple of Buffer
        Where each thread gets the results: local arrays of one element.
    threads : tuple of Expr
        Variables of the thread loops whose values are combined.
    """

    combiner: Combiner
    operands: tuple[Expr, ...]
    results: tuple[Buffer, ...]
    threads: tuple[Expr, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Raw(Stmt):
    """Source text that only a GPU's compiler understands: all that the threads around it do.

    Attributes
    ----------
    name : str
        Name of the kernel in the text. It takes the function's parameters, and then what is
        allocated in global memory around, as pointers.
    text : str
        The kernel, and what goes with it; empty where it stands in the text of a kernel before.
    defines : tuple of str
        Macros that stand before the text, ...
    values : tuple of Expr
        ... and their values.
    """

    name: str
    text: str
    defines: tuple[str, ...]
    values: tuple[Expr, ...]


@dataclass(frozen=True, eq=False, slots=True)
class WarpReduce(Stmt):
    """Combine one value of each thread among some threads that run in step, for all of these.

    Stands where all threads of a block come or none.

    Attributes
    ----------
    combiner : Combiner
        How values combine.
    operands : tuple of Expr
        This thread's values, one for each result of the combiner.
    results : tuple of Buffer
        Where each thread gets the results: local arrays.
    index : Expr
        The element of these.
    width : int
        How many threads combine their values: each `width` that follow one another in a block,
        those along x first. A power of two, at most 32.
    """

    combiner: Combiner
    operands: tuple[Expr, ...]
    results: tuple[Buffer, ...]
    index: Expr
    width: int


@dataclass(frozen=True, eq=False)
class PrimFunc:
    """A lowered function.

    Attributes
    ----------
    name : str
        Symbol name.
    params : tuple of Buffer
        Array parameters in the caller's order: inputs, then outputs.
    outputs : frozenset of Buffer
        The parameters that the body writes.
    body : Stmt
        What it does.
    sizes : tuple of SizeVar
        Sizes inferred from the arrays' shapes when it is called.
    attrs : dict
        Notes between passes, such as the knob values that were substituted.
    """

    name: str
    params: tuple[Buffer, ...]
    outputs: frozenset[Buffer]
    body: Stmt
    sizes: tuple[SizeVar, ...] = ()
    attrs: dict[str, Any] = field(default_factory=dict)

    @property
    def lines(self) -> dict[SizeVar, Buffer]:
        """Variables that say where arrays lie, and these arrays.

        Such a variable is how many elements an array has before one that begins a cache line. What
        a function computes does not depend on it.
        """
        found: dict[SizeVar, Buffer] = self.attrs.get("lines", {})
        return found

    def with_body(self, body: Stmt) -> PrimFunc:
        """Return the function with another body (itself if it is the same)."""
        if body is self.body:
            return self
        return PrimFunc(self.name, self.params, self.outputs, body, self.sizes, self.attrs)

    def with_attrs(self, **attrs: Any) -> PrimFunc:
        """Return the function with further notes."""
        merged = {**self.attrs, **attrs}
        return PrimFunc(self.name, self.params, self.outputs, self.body, self.sizes, merged)

    def __str__(self) -> str:
        from autotune.ir.printer import stmt_text

        return stmt_text(self.body)


def seq(*stmts: Stmt) -> Stmt:
    """Statements in order, flattened; a single one is itself."""
    flat: list[Stmt] = []
    for stmt in stmts:
        flat.extend(stmt.stmts if isinstance(stmt, Seq) else (stmt,))
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))


def allocated(buffers: Sequence[Buffer], body: Stmt) -> Stmt:
    """Return a statement inside allocations of some buffers, the first one outermost."""
    for buffer in reversed(buffers):
        body = Allocate(buffer, body)
    return body


def split_allocations(stmt: Stmt) -> tuple[list[Buffer], Stmt]:
    """Return what is allocated around all of a statement, outermost first, and what is inside."""
    buffers: list[Buffer] = []
    while isinstance(stmt, Allocate):
        buffers.append(stmt.buffer)
        stmt = stmt.body
    return buffers, stmt


def split_guards(stmt: Stmt) -> tuple[list[Expr], Stmt]:
    """Return the conditions that guard all of a statement, outermost first, and what is inside."""
    guards: list[Expr] = []
    while isinstance(stmt, If) and stmt.orelse is None:
        guards.append(stmt.condition)
        stmt = stmt.then
    return guards, stmt


def under_guards(guards: Sequence[Expr], body: Stmt) -> Stmt:
    """Return a statement under conditions, the first one outermost; `split_guards` undoes it."""
    for guard in reversed(guards):
        body = If(guard, body)
    return body
