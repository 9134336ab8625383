"""Statements: stores, loops, branches, allocations; parallel loops become functions of their own.

A kernel is `i32 NAME(ptr arrays..., i64 sizes..., i32 threads)`; the result is 0, or 1 when
scratch memory could not be allocated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from autotune.codegen.llvm.addresses import ALIGNMENT
from autotune.codegen.llvm.linear_forms import Linear, constant
from autotune.codegen.llvm.llvm_expressions import EXACT_OPS, FAST_OPS, Values
from autotune.codegen.llvm.llvm_types import const_text, llvm_type, memory_type, symbol
from autotune.codegen.llvm.parallel_regions import launch
from autotune.errors import CodegenError
from autotune.ir import dtypes
from autotune.ir.expr import Buffer, Call, Const, Expr, SizeVar, Var
from autotune.ir.stmt import (
    Allocate,
    Barrier,
    For,
    If,
    LoopKind,
    Produce,
    Seq,
    Stmt,
    Store,
)
from autotune.ir.visitor import child_stmts, free_vars

#: Constant allocations up to this many bytes live on the stack, where they can become registers.
STACK_BYTES = 16 * 1024
#: All of a function's stack allocations together.
TOTAL_STACK_BYTES = 64 * 1024
#: Most iterations that nested unrolled loops expand to; beyond, the outer ones stay loops.
UNROLL_LIMIT = 2048
#: Number of the metadata node that tells LLVM to unroll a loop; those of the loops follow.
UNROLL_METADATA = 2


@dataclass
class ModuleText:
    """What the functions of a module share, and their texts.

    Attributes
    ----------
    declarations : dict
        Text by symbol, for external functions and intrinsics.
    math : dict
        Math functions used: (name, dtype, lanes) by symbol.
    functions : list of str
        Finished functions, helpers before their callers.
    uses_threads : bool
        Whether any loop is parallel.
    uses_hints : bool
        Whether a branch refers to the weights !0.
    unrolled : list of str
        Metadata of loops that LLVM is to unroll, one node each.
    streamed : frozenset of str
        Names of buffers whose vectors are stored past the caches (metadata !1).
    ahead : mapping of str to Expr
        Names of buffers, and how many elements behind each vector that is read of them is fetched.
    lines : dict of Buffer to SizeVar
        Those for which it is known how many elements are before one that begins a cache line.
    fast_math : bool
        Whether float arithmetic may be rearranged.
    """

    declarations: dict[str, str] = field(default_factory=dict)
    math: dict[str, tuple[str, str, int]] = field(default_factory=dict)
    functions: list[str] = field(default_factory=list)
    uses_threads: bool = False
    uses_hints: bool = False
    unrolled: list[str] = field(default_factory=list)
    streamed: frozenset[str] = frozenset()
    ahead: Mapping[str, Expr] = field(default_factory=dict)
    lines: Mapping[Buffer, SizeVar] = field(default_factory=dict)
    fast_math: bool = False

    def unrolled_loop(self) -> str:
        """Return new metadata of a loop that LLVM is to unroll, whose length is constant."""
        node = f"!{UNROLL_METADATA + 1 + len(self.unrolled)}"
        self.unrolled.append(f"{node} = distinct !{{{node}, !{UNROLL_METADATA}}}")
        return node


class Body(Values):
    """One LLVM function under construction: `Values` plus statements.

    Parameters
    ----------
    module : ModuleText
        Where declarations and outlined functions go.
    name : str
        Symbol of this function, from which those of its parallel bodies derive.
    threads : str
        Operand that holds the number of threads, empty where loops must stay serial.
    """

    def __init__(self, module: ModuleText, name: str, threads: str = "") -> None:
        super().__init__()
        self.module = module
        self.name = name
        self.threads = threads
        self.functions = module.math
        self.lines = module.lines
        self.float_ops = FAST_OPS if module.fast_math else EXACT_OPS
        self.stack: list[str] = []
        self.stack_bytes = 0
        self.heap: list[tuple[str, str]] = []
        self.parallel_loops = 0
        self.streams = False
        self.expansion = 1

    def declare(self, name: str, text: str) -> None:
        """Note that the module needs the declaration `text` of the symbol `name`."""
        self.module.declarations[name] = text

    # -- the function as a whole -----------------------------------------------------------------

    def finish(self, parameters: list[str], linkage: str, write: Callable[[], None]) -> str:
        """Return the text of the function whose statements `write` emits."""
        with self.region("body"):
            body = self.code
            write()
        lines = [f"define {linkage}i32 @{self.name}({', '.join(parameters)}) nounwind {{", "entry:"]
        lines += self.stack
        fails = bool(self.heap) or self.parallel_loops > 0
        if fails:
            lines += ["  %status = alloca i32", "  store i32 0, ptr %status"]
        lines += self.scopes[0].code.lines
        lines += self._allocations()
        lines += body.lines
        lines += ["  br label %end", "end:"]
        if self.streams:
            lines.append("  fence seq_cst")  # such stores reach memory late and in any order
        for pointer, _ in self.heap:
            lines.append(f"  call void @free(ptr {pointer})")
        if fails:
            lines.append("  %result = load i32, ptr %status")
        lines += [f"  ret i32 {'%result' if fails else '0'}", "}"]
        return "\n".join(lines)

    def _allocations(self) -> list[str]:
        if not self.heap:
            return ["  br label %body"]
        self.declare("aligned_alloc", "declare noalias ptr @aligned_alloc(i64, i64) nounwind")
        self.declare("free", "declare void @free(ptr) nounwind")
        lines, failed = [], "false"
        for number, (pointer, size) in enumerate(self.heap):
            lines.append(f"  {pointer} = call ptr @aligned_alloc(i64 {ALIGNMENT}, i64 {size})")
            lines.append(f"  %null.{number} = icmp eq ptr {pointer}, null")
            lines.append(f"  %failed.{number} = or i1 {failed}, %null.{number}")
            failed = f"%failed.{number}"
        lines += [
            f"  br i1 {failed}, label %exhausted, label %body",
            "exhausted:",
            "  store i32 1, ptr %status",
            "  br label %end",
        ]
        return lines

    # -- statements --------------------------------------------------------------------------------

    def stmt(self, stmt: Stmt) -> None:
        """Emit one statement."""
        match stmt:
            case Store():
                self._write(stmt)
            case For():
                self._loop(stmt)
            case If():
                self._branch(stmt)
            case Seq():
                for inner in stmt.stmts:
                    self.stmt(inner)
            case Allocate():
                self._allocate(stmt.buffer)
                self.stmt(stmt.body)
            case Produce():
                self.stmt(stmt.body)
            case Barrier():
                raise CodegenError("a barrier has no meaning on the CPU")
            case _:
                raise CodegenError(f"cannot compile a {type(stmt).__name__}")

    def _write(self, store: Store) -> None:
        buffer, lanes, dtype = store.buffer, store.index.lanes, store.buffer.dtype
        if store.value.dtype != dtype:
            raise CodegenError(
                f"a {store.value.dtype} is stored in {buffer.name!r}, which holds {dtype}"
            )
        value = self.to_memory(self.widened(store.value, lanes), dtype, lanes)
        self.store(buffer, store.index, value)

    def look_ahead(self, buffer: Buffer, index: Linear, lanes: int) -> None:
        """Fetch the cache lines that are some way behind consecutive elements of a buffer."""
        distance = self.module.ahead.get(buffer.name)
        if distance is None or lanes == 1 or any(v not in self.env for v in free_vars(distance)):
            return
        away = self.form(distance)
        if away.is_const and not away.const:
            return
        size, name = dtypes.itemsize(buffer.dtype), "llvm.prefetch.p0"
        self.declare(name, f"declare void @{name}(ptr, i32 immarg, i32 immarg, i32 immarg)")
        start = index + away
        for line in range(0, lanes, max(1, ALIGNMENT // size)):
            pointer = self.address(buffer, start + constant(line))
            # To be read (0), into the second level (2), data (1).
            self.line(f"call void @{name}(ptr {pointer}, i32 0, i32 2, i32 1)")

    def store_hint(self, buffer: Buffer, lanes: int) -> str:
        """Metadata of a store of `lanes` consecutive elements."""
        if buffer.name not in self.module.streamed or lanes == 1 or buffer.dtype == dtypes.BOOL:
            return ""
        self.streams = True
        return ", !nontemporal !1"

    def _masked_branch(self, stmt: If) -> None:
        """Emit each side of a vector condition for the lanes that take it, if there are any."""
        lanes, test = stmt.condition.lanes, self.value(stmt.condition)
        kind = llvm_type(dtypes.BOOL, lanes)
        sides = [(stmt.then, test)]
        if stmt.orelse is not None:
            true = const_text(True, dtypes.BOOL, lanes)
            sides.append((stmt.orelse, self.define(f"xor {kind} {test}, {true}")))
        for side, chosen in sides:
            mask = self.active(chosen, lanes)
            some = self.any_lane(mask, lanes)
            label, join = self.fresh("some"), self.fresh("join")
            with self.region(label) as branch, self.masked(mask, lanes, inhabited=True):
                self.stmt(side)
                self.line(f"br label %{join}")
            self.line(f"br i1 {some}, label %{label}, label %{join}")
            self.code.append(branch)
            self.code.begin(join)
            self.epoch += 1

    def _branch(self, stmt: If) -> None:
        if stmt.condition.lanes > 1:
            self._masked_branch(stmt)
            return
        condition = self.value(stmt.condition)
        if condition in ("true", "false"):
            chosen = stmt.then if condition == "true" else stmt.orelse
            if chosen is not None:
                with self.region():
                    self.stmt(chosen)
            return
        join, labels, branches = self.fresh("join"), [], []
        for part in (stmt.then, stmt.orelse):
            if part is None:
                labels.append(join)
                continue
            labels.append(self.fresh("then" if part is stmt.then else "else"))
            with self.region(labels[-1]) as branch:
                self.stmt(part)
                self.line(f"br label %{join}")
            branches.append(branch)
        hint = ""
        if isinstance(stmt.condition, Call) and stmt.condition.name == "likely":
            hint = ", !prof !0"
            self.module.uses_hints = True
        self.line(f"br i1 {condition}, label %{labels[0]}, label %{labels[1]}{hint}")
        for branch in branches:
            self.code.append(branch)
        self.code.begin(join)
        self.epoch += 1

    def _allocate(self, buffer: Buffer) -> None:
        size = constant(dtypes.itemsize(buffer.dtype))
        for extent in buffer.shape:
            size = self._product(size, self.form(extent))
        pointer = "%" + self.fresh(symbol(buffer.name))
        self.buffers[buffer] = pointer
        self.own.add(buffer)
        fits = size.is_const and size.const <= STACK_BYTES
        if fits and self.stack_bytes + size.const <= TOTAL_STACK_BYTES:
            self.stack_bytes += size.const
            self.private[buffer] = size.const // dtypes.itemsize(buffer.dtype)
            kind = memory_type(buffer.dtype)
            count = max(1, size.const // dtypes.itemsize(buffer.dtype))
            self.stack.append(f"  {pointer} = alloca [{count} x {kind}], align {ALIGNMENT}")
            return
        if any(atom.depth > 0 for atom in size.terms):
            raise CodegenError(f"the size of buffer {buffer.name!r} depends on a loop")
        # aligned_alloc takes multiples of the alignment; 0 bytes would be a null pointer.
        padded = size + constant(2 * ALIGNMENT - 1)
        rounded = self._floor("//", padded, constant(ALIGNMENT)).scaled(ALIGNMENT)
        self.heap.append((pointer, self.materialise(rounded)))

    # -- loops -------------------------------------------------------------------------------------

    def _loop(self, loop: For) -> None:
        if loop.kind in (LoopKind.THREAD, LoopKind.VTHREAD):
            raise CodegenError(
                f"loop {loop.var.name} is bound to {loop.thread_tag}, which a CPU does not have; "
                "use parallel or leave it serial"
            )
        if loop.kind is LoopKind.VECTORIZED:
            raise CodegenError(f"loop {loop.var.name} was to become vectors before code generation")
        extent = self.form(loop.extent)
        if extent.is_const and extent.const <= 0:
            return
        if extent.is_const and extent.const == 1:
            self._iteration(loop, 0)
        elif loop.kind is LoopKind.PARALLEL and self.threads:
            launch(self, loop, extent)
        elif (
            loop.kind is LoopKind.UNROLLED
            and extent.is_const
            and self.expansion * extent.const * _iterations_inside(loop.body) <= UNROLL_LIMIT
        ):
            self.expansion *= extent.const
            for i in range(extent.const):
                self._iteration(loop, i)
            self.expansion //= extent.const
        else:
            hinted = loop.kind is LoopKind.UNROLL_HINTED
            self.count(loop.var, constant(0), extent, lambda: self.stmt(loop.body), hinted)

    def _iteration(self, loop: For, i: int) -> None:
        with self.region():
            self.env[loop.var] = constant(i)
            self.stmt(loop.body)

    def count(
        self,
        var: Var,
        start: Linear,
        stop: Linear,
        body: Callable[[], None],
        unroll: bool = False,
    ) -> None:
        """Emit a loop of `var` over [start, stop), tested at the end.

        `unroll`: LLVM unrolls it.
        """
        name = symbol(var.name)
        label, done = self.fresh(f"loop.{name}"), self.fresh(f"end.{name}")
        index, following = "%" + self.fresh(name), "%" + self.fresh(f"{name}.next")
        lower, upper = self.materialise(start), self.materialise(stop)
        low, high = start.bounds[0], stop.bounds[1]
        self.epoch += 1
        with self.region(label) as inner:
            # Where the loop is entered from is known when all hoisted code has been written.
            at = len(inner.lines)
            self.env[var] = self.atom(index, low, None if high is None else high - 1)
            body()
            self.line(f"{following} = add nuw nsw i64 {index}, 1")
            again = self.define(f"icmp slt i64 {following}, {upper}")
            hint = f", !llvm.loop {self.module.unrolled_loop()}" if unroll else ""
            self.line(f"br i1 {again}, label %{label}, label %{done}{hint}")
        outer = self.code
        inner.lines.insert(
            at,
            f"  {index} = phi i64 [ {lower}, %{outer.label} ], [ {following}, %{inner.label} ]",
        )
        least = (stop - start).bounds[0]
        if least is not None and least > 0:
            self.line(f"br label %{label}")
        else:
            runs = self.define(f"icmp slt i64 {lower}, {upper}")
            self.line(f"br i1 {runs}, label %{label}, label %{done}")
        outer.append(inner)
        outer.begin(done)
        self.epoch += 1


def _iterations_inside(stmt: Stmt) -> int:
    """Return how many iterations of unrolled loops one execution of `stmt` has at most."""
    inside = max(map(_iterations_inside, child_stmts(stmt)), default=1)
    if isinstance(stmt, For) and stmt.kind is LoopKind.UNROLLED and isinstance(stmt.extent, Const):
        return max(1, int(stmt.extent.value)) * inside
    return inside
