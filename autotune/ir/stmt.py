"""Statements and functions: the output of lowering and the input of backends.

Loops start at 0. A function is a body over buffers, which callers pass, and sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import ClassVar

from autotune.ir.axes import Combiner
from autotune.ir.expr import Buffer, Const, Expr, SizeVar, Var


@dataclass(frozen=True)
class Prefetch:
    """A hint for loads of consecutive elements: which others are likely to be loaded soon."""

    #: How far behind they are, in elements.
    distance: Expr
    #: Cache that they are wanted in: 1, the nearest, or 2.
    level: int


@dataclass(frozen=True)
class FunctionInfo:
    """Facts and hints that lowering hands on to later passes and code generators.

    Buffers are named, because passes replace buffers and keep the names.
    """

    #: Conditions on knobs, each with an error message.
    requirements: tuple[tuple[Expr, str], ...] = ()
    #: Stage and axis of each loop over blocks or threads, by its variable.
    bound_axes: Mapping[Var, tuple[str, str]] = field(default_factory=dict)
    #: Pragmas by the variable of the loop, among them "auto_unroll_max_step", the most stores of an
    #: unrolled loop; "unroll_explicit", 0 if the loop stays and the backend gets a hint.
    loop_pragmas: Mapping[Var, Mapping[str, Expr]] = field(default_factory=dict)
    #: Most threads that share a parallel loop, by its variable.
    num_threads: Mapping[Var, Expr] = field(default_factory=dict)
    #: Sizes of scans, and the least number of steps of each.
    least_extents: tuple[tuple[Expr, int], ...] = ()
    #: Buffers with the states of scans, and whether each index into them determines the element of
    #: a step.
    scan_states: Mapping[str, bool] = field(default_factory=dict)
    #: Buffers that are written once, in whole cache lines, and not read soon. Their vectors are
    #: stored past the caches: a memory-bound kernel is up to twice as fast, but partial lines are
    #: much slower.
    nontemporal: frozenset[str] = frozenset()
    #: What is prefetched with each load of a buffer.
    prefetches: Mapping[str, Prefetch] = field(default_factory=dict)
    #: The requested number, by the buffer that the blocks compute.
    blocks_per_multiprocessor: Mapping[str, Expr] = field(default_factory=dict)
    #: Buffers that are filled one iteration ahead: through registers, or by asynchronous copies.
    loaded_ahead: frozenset[str] = frozenset()
    copied_ahead: frozenset[str] = frozenset()
    #: Local buffers for values that are loaded ahead and stored later: their loads stay first.
    waiting: frozenset[str] = frozenset()
    #: Loops to be written out for two iterations at a time: then it is known which half of a buffer
    #: with two halves each of them uses.
    in_pairs: frozenset[Var] = frozenset()
    #: Variables for the alignment of arrays: the number of elements of an array before the first
    #: one that begins a cache line. The results of the function do not depend on them.
    line_offsets: Mapping[SizeVar, Buffer] = field(default_factory=dict)
    #: Loops that could not be vectorized, each with the reason.
    not_vectorized: tuple[tuple[str, str], ...] = ()


class LoopKind(StrEnum):
    """How the iterations of a loop are executed."""

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
    #: Fields with expressions, and with statements, in textual order: one each, or a tuple of them.
    EXPRS: ClassVar[tuple[str, ...]] = ()
    STMTS: ClassVar[tuple[str, ...]] = ()

    def __str__(self) -> str:
        from autotune.ir.printer import stmt_text

        return stmt_text(self)


@dataclass(frozen=True, eq=False, slots=True)
class Store(Stmt):
    """`buffer[index] = value`; a vector index stores a vector."""

    EXPRS = ("index", "value")

    buffer: Buffer
    index: Expr
    value: Expr


@dataclass(frozen=True, eq=False, slots=True)
class For(Stmt):
    """Run `body` for var = 0, ..., extent - 1.

    `thread_tag` names the hardware axis for kinds THREAD and VTHREAD.
    """

    EXPRS = ("extent",)
    STMTS = ("body",)

    var: Var
    extent: Expr
    kind: LoopKind
    body: Stmt
    thread_tag: str = ""

    @property
    def length(self) -> int:
        """Number of iterations, which is a constant."""
        assert isinstance(self.extent, Const)
        return int(self.extent.value)

    def with_body(self, body: Stmt, extent: Expr | None = None) -> For:
        """Return this loop with another body, and perhaps length (itself if they are the same)."""
        extent = self.extent if extent is None else extent
        same = extent is self.extent and body is self.body
        return self if same else For(self.var, extent, self.kind, body, self.thread_tag)


@dataclass(frozen=True, eq=False, slots=True)
class If(Stmt):
    """Run `then` where `condition` holds, else `orelse`.

    A vector condition is a mask: `then` runs once, for the lanes where it holds, if there are any;
    then `orelse` likewise for the others. Vector loads and stores inside have the same number of
    lanes and access only the elements of active lanes.
    """

    EXPRS = ("condition",)
    STMTS = ("then", "orelse")

    condition: Expr
    then: Stmt
    orelse: Stmt | None = None

    def with_parts(self, condition: Expr, then: Stmt, orelse: Stmt | None) -> If:
        """Return a conditional of other parts (itself if they are the same)."""
        same = condition is self.condition and then is self.then and orelse is self.orelse
        return self if same else If(condition, then, orelse)


@dataclass(frozen=True, eq=False, slots=True)
class Seq(Stmt):
    """Run statements in order; empty for no operation."""

    STMTS = ("stmts",)

    stmts: tuple[Stmt, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Allocate(Stmt):
    """Make `buffer` available, with undefined contents, within `body`."""

    STMTS = ("body",)

    buffer: Buffer
    body: Stmt


@dataclass(frozen=True, eq=False, slots=True)
class Produce(Stmt):
    """Mark `body` as the computation of the operation `name`."""

    STMTS = ("body",)

    name: str
    body: Stmt


@dataclass(frozen=True, eq=False, slots=True)
class Barrier(Stmt):
    """Wait until all threads of the block arrive; shared storage is then consistent.

    Either all threads of a block must reach it or none.
    """


@dataclass(frozen=True, eq=False, slots=True)
class CopyAhead(Stmt):
    """Start the stores of `body` asynchronously.

    Their destinations are undefined until the `Arrive` with the same stores. No other access may
    touch sources or destinations until then.
    """

    STMTS = ("body",)

    body: Stmt


@dataclass(frozen=True, eq=False, slots=True)
class Arrive(Stmt):
    """Wait until all copies that this thread started by `CopyAhead` are complete."""

    STMTS = ("body",)

    #: The stores that were started since the last `Arrive`.
    body: Stmt


@dataclass(frozen=True, eq=False, slots=True)
class ThreadReduce(Stmt):
    """Combine one value of each thread along some thread axes, for all these threads."""

    EXPRS = ("operands", "threads")

    #: How values combine.
    combiner: Combiner
    #: This thread's values, one for each result of the combiner.
    operands: tuple[Expr, ...]
    #: Where each thread gets the results: local arrays of one element.
    results: tuple[Buffer, ...]
    #: Variables of the thread loops whose values are combined.
    threads: tuple[Expr, ...]


@dataclass(frozen=True)
class CallForm:
    """How a function in C is called, where it does not take a pointer to each array in order."""

    #: What it takes, in order: positions of arrays, whose pointers it gets, and numbers by value,
    #: each after its type.
    arguments: tuple[int | tuple[str, int | float], ...]
    #: Positions of an input and of the output that gets its values before each call.
    copied: tuple[tuple[int, int], ...] = ()
    #: Positions of the inputs that it may overwrite: it gets copies of them.
    scratch: tuple[int, ...] = ()
    #: Whether it returns the milliseconds that it took, as a float.
    times_itself: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Raw(Stmt):
    """Source text in another language: all work of the enclosing threads, or of the function."""

    EXPRS = ("values",)

    #: Name of the kernel in the text. Its parameters are pointers: the function's parameters, and
    #: then the enclosing allocations in global memory.
    name: str
    #: The kernel and its helper code; empty if the text of an earlier kernel contains it.
    text: str
    #: Names of the macros that are defined before the text.
    defines: tuple[str, ...]
    #: Values of the macros.
    values: tuple[Expr, ...]
    #: Position of the user's text: the number of lines before it in `text`, and the number of its
    #: first line.
    given: tuple[int, int] = (0, 1)
    #: Language of the text: "cuda", "c", "c++" or "python".
    language: str = "cuda"
    #: Of a text in C or C++: its compiler, and the options for it; in CUDA C++ the options.
    command: tuple[str, ...] = ()
    #: Where relative paths in the options begin.
    folder: str = ""
    #: Identity of the files that the options let it include; empty without any.
    headers: str = ""
    #: How a function in C, or each kernel of a text, is called; None if it takes a pointer to each
    #: of the parameters.
    call: CallForm | None = None
    #: Whether the device header stands before a text in CUDA C++.
    header: bool = True


@dataclass(frozen=True, eq=False, slots=True)
class WarpReduce(Stmt):
    """Combine one value per thread within groups of a warp; all threads get the result.

    Either all threads of a block must reach it or none.
    """

    EXPRS = ("operands", "index")

    #: How values combine.
    combiner: Combiner
    #: This thread's values, one for each result of the combiner.
    operands: tuple[Expr, ...]
    #: Where each thread gets the results: local arrays.
    results: tuple[Buffer, ...]
    #: Element of the results that is written.
    index: Expr
    #: Number of threads in a group, which are consecutive in the block (x runs fastest). A power of
    #: two, at most 32.
    width: int


@dataclass(frozen=True, eq=False)
class PrimFunc:
    """A lowered function."""

    #: Symbol name.
    name: str
    #: Array parameters in the caller's order: inputs, then outputs.
    params: tuple[Buffer, ...]
    #: The parameters that the body writes.
    outputs: frozenset[Buffer]
    #: What it does.
    body: Stmt
    #: Sizes inferred from the arrays' shapes when it is called.
    sizes: tuple[SizeVar, ...] = ()
    #: Facts and hints for later passes.
    info: FunctionInfo = field(default_factory=FunctionInfo)

    def with_body(self, body: Stmt) -> PrimFunc:
        """Return the function with another body (itself if it is the same)."""
        return self if body is self.body else replace(self, body=body)

    def __str__(self) -> str:
        from autotune.ir.printer import stmt_text

        return stmt_text(self.body)


def seq(*stmts: Stmt) -> Stmt:
    """Statements in order, flattened; a single one is itself."""
    flat: list[Stmt] = []
    for stmt in stmts:
        flat.extend(stmt.stmts if isinstance(stmt, Seq) else (stmt,))
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))


NOTHING = Seq(())


def is_empty(stmt: Stmt | None) -> bool:
    """Whether a statement does nothing."""
    return stmt is None or (isinstance(stmt, Seq) and not stmt.stmts)


def allocated(buffers: Sequence[Buffer], body: Stmt) -> Stmt:
    """Return a statement inside allocations of some buffers, the first outermost."""
    for buffer in reversed(buffers):
        body = Allocate(buffer, body)
    return body


def split_allocations(stmt: Stmt) -> tuple[list[Buffer], Stmt]:
    """Return the allocations around a statement, outermost first, and the statement inside."""
    buffers: list[Buffer] = []
    while isinstance(stmt, Allocate):
        buffers.append(stmt.buffer)
        stmt = stmt.body
    return buffers, stmt


def top_level(stmt: Stmt) -> tuple[list[Buffer], list[Stmt]]:
    """Return the allocations and the statements in no loop or condition, in textual order."""
    match stmt:
        case Allocate(buffer, body):
            buffers, found = top_level(body)
            return [buffer, *buffers], found
        case Seq(stmts):
            parts = [top_level(part) for part in stmts]
            return [b for own, _ in parts for b in own], [s for _, own in parts for s in own]
        case _:
            return [], [stmt]


def split_guards(stmt: Stmt) -> tuple[list[Expr], Stmt]:
    """Return the guards of a whole statement, outermost first, and the statement inside."""
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
