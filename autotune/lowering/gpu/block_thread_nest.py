"""Merges the loops over blocks and threads of a kernel into one nest around everything else.

    for blockIdx.x in 8:                   for blockIdx.x in 8:
      for threadIdx.x in 32:                 allocate shared X
        X[threadIdx.x] = f(threadIdx.x)      for threadIdx.x in 64:
      for threadIdx.x in 64:          ->       if threadIdx.x < 32:
        Y[threadIdx.x] = g(X)                    X[threadIdx.x] = f(threadIdx.x)
                                               Y[threadIdx.x] = g(X)

A kernel is one stage at the root, with all stages that are computed inside it. Its threads run
concurrently; barriers, which a later pass inserts, order them. Only the first thread executes
statements without a loop over threads. A loop inside another one over the same axis, which in
listings and features is a loop of its own, has the other one's index.
"""

from __future__ import annotations

from collections.abc import Iterator

from autotune.errors import LoweringError
from autotune.ir.algebra.polynomials import to_poly
from autotune.ir.expr import BinaryOp, Buffer, Call, Const, Expr, Var, is_const
from autotune.ir.name_supply import NameSupply
from autotune.ir.ops import binary, const, likely
from autotune.ir.stmt import (
    Allocate,
    For,
    If,
    LoopKind,
    PrimFunc,
    Produce,
    Seq,
    Stmt,
    Store,
    ThreadReduce,
    allocated,
    seq,
)
from autotune.ir.visitor import (
    Rewriter,
    StmtRewriter,
    accessed,
    child_stmts,
    free_vars,
    is_thread_loop,
    walk,
    written,
)
from autotune.lowering.gpu.cross_thread_reduction import lower_thread_reduction
from autotune.lowering.storage_rewrite import moved

#: Axes of blocks and threads, outermost loops first.
BLOCKS = ("blockIdx.z", "blockIdx.y", "blockIdx.x")
THREADS = ("threadIdx.z", "threadIdx.y", "threadIdx.x")


def merge_thread_loops(function: PrimFunc) -> PrimFunc:
    """Return a function with one nest per root stage: loops over blocks and threads outermost.

    `function`: analysed, with the marks of its stages.

    Raises LoweringError if a block needs results of other blocks of the same kernel, if a thread
    needs local storage of others, or if the number of threads changes during a kernel.
    """
    names = NameSupply.of_buffers(function)
    return function.with_body(_kernels(function.body, function, names))


def is_kernel_loop(stmt: Stmt) -> bool:
    """Whether a statement is a loop over blocks or threads."""
    return isinstance(stmt, For) and stmt.kind is LoopKind.THREAD


def _kernels(stmt: Stmt, function: PrimFunc, names: NameSupply) -> Stmt:
    match stmt:
        case Seq(stmts):
            return seq(*(_kernels(inner, function, names) for inner in stmts))
        case Allocate(buffer, body):
            if buffer.scope != "global":
                raise LoweringError(
                    f"stage {buffer.name!r} is in {buffer.scope} storage, which lasts as long as a "
                    "kernel, but is computed in a kernel of its own; compute it at a loop of its "
                    "reader"
                )
            return Allocate(buffer, _kernels(body, function, names))
        case Produce(name, body):
            return _nest(name, body, names)
        case _:
            return _nest(function.name, stmt, names)


def _nest(name: str, body: Stmt, names: NameSupply) -> Stmt:
    """Return the loops of a kernel over its blocks and threads, around the code of one thread."""
    axes = _Axes(name, body)
    body = _Gathered(name, axes, names).stmt(body)
    for tag in (*reversed(THREADS), *reversed(BLOCKS)):
        if tag in axes.extents:
            body = For(axes.vars[tag], axes.extents[tag], LoopKind.THREAD, body, tag)
    return body


class _Axes:
    """The axes of a kernel: one variable and the largest extent of each."""

    def __init__(self, name: str, body: Stmt) -> None:
        #: The variable of each axis.
        self.vars: dict[str, Var] = {}
        #: Its extent.
        self.extents: dict[str, Expr] = {}
        #: New variables for those of other loops over the same axis.
        self.others: dict[Expr, Expr] = {}
        bound = {stmt.var for stmt in walk(body) if isinstance(stmt, For)}
        for loop in walk(body):
            if not isinstance(loop, For) or loop.kind is not LoopKind.THREAD:
                continue
            tag, extent = loop.thread_tag, loop.extent
            if not bound.isdisjoint(free_vars(extent)):
                raise LoweringError(
                    f"kernel of stage {name!r}: the extent of {tag}, `{extent}`, differs while the "
                    "kernel runs; bind a loop of one length"
                )
            self.others[loop.var] = self.vars.setdefault(tag, loop.var)
            known = self.extents.get(tag)
            self.extents[tag] = extent if known is None else binary("max", known, extent)
        for tag in ("blockIdx.x", "threadIdx.x"):
            if tag not in self.vars:
                self.vars[tag], self.extents[tag] = Var(tag), const(1)

    def several(self, tags: tuple[str, ...]) -> Iterator[str]:
        """Yield the axes that are longer than 1."""
        for tag in tags:
            extent = self.extents.get(tag)
            if extent is not None and not is_const(extent, 1):
                yield tag


class _Gathered(Rewriter):
    """Removes the loops over blocks and threads, and adds guards for work of only some of them."""

    def __init__(self, name: str, axes: _Axes, names: NameSupply) -> None:
        super().__init__()
        self.name = name
        self.axes = axes
        self.names = names
        self.open: dict[str, Expr] = {}
        self.virtual: dict[Var, Expr] = {}
        self.tested: set[Var] = set()
        self._memo.update(axes.others)

    def visit_For(self, node: For) -> Stmt:
        if node.kind is LoopKind.VTHREAD:
            self.virtual[node.var] = node.extent
            rebuilt = self.rebuild_stmt(node)
            del self.virtual[node.var]
            return rebuilt
        if node.kind is not LoopKind.THREAD:
            return self.rebuild_stmt(node)
        tag, around = node.thread_tag, self.open
        self.open = {tag: node.extent, **around}
        body = self.stmt(node.body)
        self.open = around
        if node.extent is around.get(tag, self.axes.extents[tag]):
            return body
        inside = binary("<", self.axes.vars[tag], node.extent)
        return If(likely(inside) if tag in around else inside, body)

    def visit_If(self, node: If) -> Stmt:
        """Collect the axes that a condition tests; a guard of a loop's end selects no threads."""
        added = _selecting(self.expr(node.condition)) - self.tested
        self.tested |= added
        result = self.rebuild_stmt(node)
        self.tested -= added
        return result

    def visit_Store(self, node: Store) -> Stmt:
        """Let one thread, or one block, write values that do not depend on the thread or block."""
        store = self.rebuild_stmt(node)
        assert isinstance(store, Store)
        tags = {"local": (), "shared": THREADS}.get(store.buffer.scope, (*BLOCKS, *THREADS))
        known = self.tested.union(free_vars(store.index))
        result: Stmt = store
        for tag in self.axes.several(tags):
            if self.axes.vars[tag] not in known:
                result = If(binary("==", self.axes.vars[tag], 0), result)
        return result

    def visit_ThreadReduce(self, node: ThreadReduce) -> Stmt:
        reduction = self.rebuild_stmt(node)
        assert isinstance(reduction, ThreadReduce)
        axes = self.axes
        return lower_thread_reduction(
            reduction, axes.vars, axes.extents, self.open, self.virtual, self.names
        )

    def visit_Allocate(self, node: Allocate) -> Stmt:
        buffer = node.buffer
        if buffer.scope == "global":
            return self._global(node)
        self._check_own_blocks(node)
        if buffer.scope == "local":
            self._check_private(node)
        elif not any(tag.startswith("blockIdx") for tag in self.open) and self._later(node, BLOCKS):
            self._refuse_across_blocks(buffer)
        return self.rebuild_stmt(node)

    def _later(self, node: Stmt, tags: tuple[str, ...]) -> set[str]:
        """Return the axes with loops inside a statement but not around it."""
        inside = {stmt.thread_tag for stmt in walk(node) if isinstance(stmt, For)}
        return {tag for tag in self.axes.several(tags) if tag in inside} - set(self.open)

    def _global(self, node: Allocate) -> Stmt:
        """Give temporaries inside a kernel their storage scope."""
        if self._later(node, BLOCKS):
            self._refuse_across_blocks(node.buffer)
        old = node.buffer
        scope = "shared" if self._later(node, THREADS) else "local"
        buffer = Buffer(old.name, old.dtype, old.shape, scope)
        return self.visit_Allocate(Allocate(buffer, moved(node.body, {old: buffer})))

    def _refuse_across_blocks(self, buffer: Buffer) -> None:
        raise LoweringError(
            f"stage {buffer.name!r} is computed inside the kernel of {self.name!r} but outside the "
            "loop over its blocks, which cannot wait for one another; compute it at a loop inside "
            "that one, or at the root"
        )

    def _check_own_blocks(self, node: Allocate) -> None:
        """Raise an error for a stage whose parts are private to single blocks."""
        missing = self._later(node, BLOCKS)
        for loop in walk(node.body):
            if (
                isinstance(loop, For)
                and loop.thread_tag in missing
                and any(node.buffer in written(stmt) for stmt in walk(loop))
            ):
                raise LoweringError(
                    f"stage {node.buffer.name!r} is computed inside the kernel of {self.name!r}, "
                    f"where its loop over {loop.thread_tag} gives each block a part of it that the "
                    "others cannot wait for; leave that loop unbound, or compute the stage at the "
                    "root"
                )

    def _check_private(self, node: Allocate) -> None:
        """Raise an error for local storage that threads would have to share."""
        later = self._later(node, THREADS)
        if not later:
            return
        users = {id(loop) for loop in _thread_loops_using(node.body, node.buffer)}
        if len(users) > 1:
            raise LoweringError(
                f"stage {node.buffer.name!r} is in local storage, which each thread has for "
                f"itself, but its loops over {', '.join(sorted(later))} are not those of its "
                "reader; give it shared storage, or compute it at a loop inside them"
            )


def _selecting(condition: Expr) -> set[Var]:
    """Return the variables of a condition that may be true although it is false where they are 0.

    A guard of a loop's end has none. One of a loop that begins before its axis may have some: where
    short rows share a vector, `0 <= lane - row and lane - row < 1` gives each row its element.
    """
    if not (isinstance(condition, Call) and condition.name == "likely"):
        return set(free_vars(condition))
    (guard,) = condition.children
    if not (isinstance(guard, BinaryOp) and guard.op in ("<", "<=")):
        return set(free_vars(guard))
    room = to_poly(binary("-", guard.b, guard.a))
    growing = (part for term, scale in room.items() if scale > 0 for part in term)
    return set().union(*map(free_vars, growing))


def _thread_loops_using(stmt: Stmt, buffer: Buffer, around: Stmt | None = None) -> Iterator[Stmt]:
    """Yield the outermost loop over threads around each use of a buffer, or the use itself."""
    if around is None and is_thread_loop(stmt):
        around = stmt
    if any(used is buffer for used in accessed(stmt)):
        yield stmt if around is None else around
    for child in child_stmts(stmt):
        yield from _thread_loops_using(child, buffer, around)


def lift_shared(function: PrimFunc) -> PrimFunc:
    """Return the function with shared storage allocated between loops over blocks and threads."""
    return function.with_body(_Lift().stmt(function.body))


class _Lift(StmtRewriter):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[Buffer] = []
        self.inside = False

    def visit_For(self, node: For) -> Stmt:
        if self.inside or not is_thread_loop(node):
            return self.rebuild_stmt(node)
        self.inside = True
        self.found = []
        result = self.rebuild_stmt(node)
        self.inside = False
        return allocated(self.found, result)

    def visit_Allocate(self, node: Allocate) -> Stmt:
        buffer = node.buffer
        for extent in buffer.shape if buffer.scope != "global" else ():
            if not isinstance(extent, Const):
                raise LoweringError(
                    f"{buffer.scope} storage of {buffer.name!r} has the extent `{extent}`, which "
                    "is not known when the kernel is compiled; give it a constant one"
                )
        if not self.inside or buffer.scope != "shared":
            return self.rebuild_stmt(node)
        self.found.append(node.buffer)
        return self.stmt(node.body)
