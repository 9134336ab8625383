"""Statements: stores, loops and branches; parallel loops become functions of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from autotune.codegen.llvm.function_builder import FunctionBuilder
from autotune.codegen.llvm.index.index_arithmetic import IndexArithmetic
from autotune.codegen.llvm.index.linear_arithmetic import LinearArithmetic
from autotune.codegen.llvm.index.linear_forms import Linear, constant
from autotune.codegen.llvm.integer_vectors import LaneMasks
from autotune.codegen.llvm.llvm_expressions import ExpressionEmitter
from autotune.codegen.llvm.llvm_types import const_text, llvm_type, symbol
from autotune.codegen.llvm.memory.loads_stores import LoadsStores
from autotune.codegen.llvm.memory.memory_versions import MemoryVersions
from autotune.codegen.llvm.memory.stack_frame import StackFrame
from autotune.codegen.llvm.memory.transposed_loads import TransposedLoads
from autotune.codegen.llvm.module_text import ModuleText
from autotune.codegen.llvm.parallel_regions import ParallelRegions
from autotune.errors import CodegenError
from autotune.ir import dtypes
from autotune.ir.expr import Call, Const, Var
from autotune.ir.stmt import Allocate, Barrier, For, If, LoopKind, Produce, Seq, Stmt, Store
from autotune.ir.visitor import child_stmts

#: Largest number of iterations of nested unrolled loops; beyond it the outer ones stay loops.
UNROLL_LIMIT = 2048


@dataclass(eq=False, repr=False)
class StatementEmitter:
    """Writes statements."""

    module: ModuleText
    builder: FunctionBuilder
    linear: LinearArithmetic
    index: IndexArithmetic
    masks: LaneMasks
    memory: LoadsStores
    versions: MemoryVersions
    expressions: ExpressionEmitter
    frame: StackFrame
    parallel: ParallelRegions
    columns: TransposedLoads
    _expansion: int = field(init=False, default=1)
    _loops: int = field(init=False, default=0)

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
                self.frame.allocate(stmt.buffer)
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
        self.memory.hints.statement = store
        self.memory.store(buffer, store.index, self.expressions.widened(store.value, lanes))

    def _masked_branch(self, stmt: If) -> None:
        """Emit each side of a vector condition for the lanes that take it, if there are any."""
        builder = self.builder
        lanes, test = stmt.condition.lanes, self.expressions.value(stmt.condition)
        kind = llvm_type(dtypes.BOOL, lanes)
        sides = [(stmt.then, test)]
        if stmt.orelse is not None:
            true = const_text(True, dtypes.BOOL, lanes)
            sides.append((stmt.orelse, builder.define(f"xor {kind} {test}, {true}")))
        for side, chosen in sides:
            mask = self.masks.active(chosen, lanes)
            some = self.masks.any_lane(mask, lanes)
            label, join = builder.fresh("some"), builder.fresh("join")
            with builder.region(label) as branch, self.masks.masked(mask, lanes, inhabited=True):
                self.stmt(side)
                builder.line(f"br label %{join}")
            builder.line(f"br i1 {some}, label %{label}, label %{join}")
            builder.code.append(branch)
            builder.code.begin(join)
            self.versions.begin_epoch()

    def _branch(self, stmt: If) -> None:
        if stmt.condition.lanes > 1:
            self._masked_branch(stmt)
            return
        builder = self.builder
        condition = self.expressions.value(stmt.condition)
        if condition in ("true", "false"):
            chosen = stmt.then if condition == "true" else stmt.orelse
            if chosen is not None:
                with builder.region():
                    self.stmt(chosen)
            return
        join, labels, branches = builder.fresh("join"), [], []
        for part in (stmt.then, stmt.orelse):
            if part is None:
                labels.append(join)
                continue
            labels.append(builder.fresh("then" if part is stmt.then else "else"))
            with builder.region(labels[-1]) as branch:
                self.stmt(part)
                builder.line(f"br label %{join}")
            branches.append(branch)
        hint = ""
        if isinstance(stmt.condition, Call) and stmt.condition.name == "likely":
            hint = ", !prof !0"
            self.module.uses_hints = True
        builder.line(f"br i1 {condition}, label %{labels[0]}, label %{labels[1]}{hint}")
        for branch in branches:
            builder.code.append(branch)
        builder.code.begin(join)
        self.versions.begin_epoch()

    # -- loops -------------------------------------------------------------------------------------

    def _loop(self, loop: For) -> None:
        if loop.kind in (LoopKind.THREAD, LoopKind.VTHREAD):
            raise CodegenError(
                f"loop {loop.var.name} is bound to {loop.thread_tag}, which a CPU does not have; "
                "use parallel or leave it serial"
            )
        if loop.kind is LoopKind.VECTORIZED:
            raise CodegenError(f"loop {loop.var.name} was to become vectors before code generation")
        extent = self.index.form(loop.extent)
        if extent.is_const and extent.const <= 0:
            return
        if extent.is_const and extent.const == 1:
            self._iteration(loop, 0)
        elif loop.kind is LoopKind.PARALLEL and self.parallel.threads:
            self.parallel.launch(loop)
        elif (
            loop.kind is LoopKind.UNROLLED
            and extent.is_const
            and self._expansion * extent.const * _iterations_inside(loop.body) <= UNROLL_LIMIT
        ):
            self._expansion *= extent.const
            if self.masks.mask is None:
                self.columns.prepare(loop)
            for i in range(extent.const):
                self._iteration(loop, i)
            self._expansion //= extent.const
        else:
            hinted = loop.kind is LoopKind.UNROLL_HINTED
            self.counted_loop(loop.var, constant(0), extent, lambda: self.stmt(loop.body), hinted)

    def numbered_loops(self, loops: Sequence[For], start: Linear, stop: Linear) -> None:
        """Emit the iterations [start, stop) of loops directly inside each other.

        Iterations are numbered in the order in which the loops execute them.
        """
        first, *rest = loops
        if not rest:
            self.counted_loop(first.var, start, stop, lambda: self.stmt(first.body))
            return
        each = constant(1)
        for loop in rest:
            each = self.linear.product(each, self.index.form(loop.extent))

        def inner() -> None:
            passed = self.linear.product(self.index.env[first.var], each)
            begin = self.linear.extreme("max", start - passed, constant(0))
            end = self.linear.extreme("min", stop - passed, each)
            self.numbered_loops(rest, begin, end)

        last = self.linear.floor("//", stop + each - constant(1), each)
        self.counted_loop(first.var, self.linear.floor("//", start, each), last, inner)

    def _iteration(self, loop: For, i: int) -> None:
        with self.builder.region():
            self.index.env[loop.var] = constant(i)
            self.stmt(loop.body)

    def counted_loop(
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
        builder, name = self.builder, symbol(var.name)
        label, done = builder.fresh(f"loop.{name}"), builder.fresh(f"end.{name}")
        upper = self.linear.materialise(stop)
        low, high = start.bounds[0], stop.bounds[1]
        self.versions.begin_epoch()
        self._loops += 1
        number = self._loops
        with builder.region(label) as inner:
            # What enters the loop is known only when all hoisted code has been written.
            at = len(inner.lines)
            self.index.env[var], multiples = self.linear.loop_variable(name, (low, high - 1))
            body()
            variable, products = multiples[1], []
            if number < self._loops:  # conditions on multiples can be decided if they are products
                products = [
                    f"  {ref} = mul nsw i64 {variable}, {factor}"
                    for factor, ref in multiples.items()
                    if factor != 1
                ]
                multiples = {1: variable}
            for factor, ref in multiples.items():
                builder.line(f"{ref}.next = add nsw i64 {ref}, {factor}")
            again = builder.define(f"icmp slt i64 {variable}.next, {upper}")
            hint = f", !llvm.loop {self.module.unrolled_loop()}" if unroll else ""
            builder.line(f"br i1 {again}, label %{label}, label %{done}{hint}")
        outer = builder.code
        first = {factor: self.linear.materialise(start.scaled(factor)) for factor in multiples}
        phis = [
            f"  {ref} = phi i64 [ {first[factor]}, %{outer.label} ], [ {ref}.next, %{inner.label} ]"
            for factor, ref in multiples.items()
        ]
        inner.lines[at:at] = phis + products
        if (stop - start).bounds[0] > 0:
            builder.line(f"br label %{label}")
        else:
            runs = builder.define(f"icmp slt i64 {first[1]}, {upper}")
            builder.line(f"br i1 {runs}, label %{label}, label %{done}")
        outer.append(inner)
        outer.begin(done)
        self.versions.begin_epoch()


def _iterations_inside(stmt: Stmt) -> int:
    """Return how many iterations of unrolled loops one execution of `stmt` has at most."""
    inside = max(map(_iterations_inside, child_stmts(stmt)), default=1)
    if isinstance(stmt, For) and stmt.kind is LoopKind.UNROLLED and isinstance(stmt.extent, Const):
        return max(1, int(stmt.extent.value)) * inside
    return inside
