"""Parallel loops: the body becomes a function that OpenMP's threads run parts of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autotune.codegen.llvm.linear_forms import Linear
from autotune.codegen.llvm.llvm_types import symbol
from autotune.ir.expr import Buffer, Var
from autotune.ir.stmt import Allocate, For, Store
from autotune.ir.visitor import accessed, free_vars, stmt_exprs, walk

if TYPE_CHECKING:
    from autotune.codegen.llvm.llvm_statements import Body


def launch(outer: Body, loop: For, extent: Linear) -> None:
    """Call the loop's body through GOMP_parallel; each thread takes one contiguous part."""
    outer.parallel_loops += 1
    outer.module.uses_threads = True
    name = f"{outer.name}.parallel{outer.parallel_loops}"
    captured = CapturedVariables(outer, loop)
    high = extent.bounds[1]
    captured.write_body(name, loop, None if high is None else high - 1)
    captured.write_launcher(name)
    count = outer.materialise(extent)
    fields = ", ".join(captured.arguments)
    outer.declare("llvm.smin.i64", "declare i64 @llvm.smin.i64(i64, i64)")
    wide = outer.define(f"sext i32 {outer.threads} to i64")
    asked = outer.define(f"call i64 @llvm.smin.i64(i64 {wide}, i64 {count})")
    labels = [outer.fresh(text) for text in ("alone", "team", "joined")]
    alone = outer.define(f"icmp sle i64 {asked}, 1")
    outer.line(f"br i1 {alone}, label %{labels[0]}, label %{labels[1]}")
    outer.code.begin(labels[0])
    separator = ", " if fields else ""
    own = outer.define(f"call i32 @{name}({fields}{separator}i64 0, i64 {count})")
    outer.line(f"br label %{labels[2]}")
    outer.code.begin(labels[1])
    context = captured.store_context(count)
    threads = outer.define(f"trunc i64 {asked} to i32")
    outer.declare("GOMP_parallel", "declare void @GOMP_parallel(ptr, ptr, i32, i32)")
    outer.line(f"call void @GOMP_parallel(ptr @{name}.launch, ptr {context}, i32 {threads}, i32 0)")
    theirs = outer.define(f"load i32, ptr {context}, align 8")
    outer.line(f"br label %{labels[2]}")
    outer.code.begin(labels[2])
    status = outer.define(f"phi i32 [ {own}, %{labels[0]} ], [ {theirs}, %{labels[1]} ]")
    bad = outer.define(f"icmp ne i32 {status}, 0")
    ok, failed = outer.fresh("ok"), outer.fresh("failed")
    outer.line(f"br i1 {bad}, label %{failed}, label %{ok}")
    outer.code.begin(failed)
    outer.line(f"store i32 {status}, ptr %status")
    outer.line("br label %end")
    outer.code.begin(ok)
    outer.epoch += 1


class CapturedVariables:
    """What the body of a parallel loop takes from the function around it.

    Attributes
    ----------
    names, arguments : list of str
        Parameter names inside, and typed operands outside, in one order.
    """

    def __init__(self, outer: Body, loop: For) -> None:
        self.outer = outer
        buffers, variables = _free(loop)
        self.buffers = [b for b in buffers if b in outer.buffers]
        self.stored = {stmt.buffer for stmt in walk(loop.body) if isinstance(stmt, Store)}
        self.variables: list[Var] = []
        self.constants: dict[Var, Linear] = {}
        for var in variables:
            form = outer.form(var)
            if form.is_const:
                self.constants[var] = form
            else:
                self.variables.append(var)
        self.names = [f"%{symbol(b.name)}" for b in self.buffers] + [
            f"%{symbol(v.name)}" for v in self.variables
        ]
        self.names = [f"{name}.c{i}" for i, name in enumerate(self.names)]
        self.arguments = [f"ptr {outer.buffers[b]}" for b in self.buffers] + [
            f"i64 {outer.materialise(outer.form(v))}" for v in self.variables
        ]

    @property
    def struct(self) -> str:
        """Type of the context: the status, the extent, then what was captured."""
        return f"{{ {', '.join(['i64', 'i64', *(a.split()[0] for a in self.arguments)])} }}"

    def write_body(self, name: str, loop: For, high: int | None) -> None:
        """Add the function that runs the iterations [%from, %to)."""
        outer = self.outer
        inner = type(outer)(outer.module, name)
        parameters = []
        for buffer, ref in zip(self.buffers, self.names[: len(self.buffers)], strict=True):
            inner.buffers[buffer] = ref
            if buffer in outer.own:
                inner.own.add(buffer)
            access = "" if buffer in self.stored else " readonly"
            parameters.append(f"ptr noalias{access} {ref}")
        for var, ref in zip(self.variables, self.names[len(self.buffers) :], strict=True):
            low, top = outer.form(var).bounds
            inner.env[var] = inner.atom(ref, low, top)
            parameters.append(f"i64 {ref}")
        inner.env.update(self.constants)
        start = inner.atom("%from", 0, None)
        stop = inner.atom("%to", None, None if high is None else high + 1)
        text = inner.finish(
            [*parameters, "i64 %from", "i64 %to"],
            "internal ",
            lambda: inner.count(loop.var, start, stop, lambda: inner.stmt(loop.body)),
        )
        outer.module.functions.append(text.replace(") nounwind {", ") noinline nounwind {", 1))

    def write_launcher(self, name: str) -> None:
        """Add the function that each thread starts in: it finds its part and runs the body."""
        outer = self.outer
        outer.declare("omp_get_thread_num", "declare i32 @omp_get_thread_num()")
        outer.declare("omp_get_num_threads", "declare i32 @omp_get_num_threads()")
        lines = [f"define internal void @{name}.launch(ptr %context) nounwind {{"]
        operands = []
        for i, argument in enumerate(["i64 %count", *self.arguments]):
            kind = argument.split()[0]
            lines.append(
                f"  %at.{i} = getelementptr {self.struct}, ptr %context, i64 0, i32 {i + 1}"
            )
            lines.append(f"  %field.{i} = load {kind}, ptr %at.{i}, align 8")
            operands.append(f"{kind} %field.{i}")
        operands = operands[1:]
        lines += [
            "  %me.32 = call i32 @omp_get_thread_num()",
            "  %all.32 = call i32 @omp_get_num_threads()",
            "  %me = sext i32 %me.32 to i64",
            "  %all = sext i32 %all.32 to i64",
            "  %before = mul i64 %field.0, %me",
            "  %from = udiv i64 %before, %all",
            "  %until = add i64 %before, %field.0",
            "  %to = udiv i64 %until, %all",
            f"  %status = call i32 @{name}({', '.join([*operands, 'i64 %from', 'i64 %to'])})",
            "  %bad = icmp ne i32 %status, 0",
            "  br i1 %bad, label %report, label %done",
            "report:",
            "  store atomic i32 %status, ptr %context monotonic, align 8",
            "  br label %done",
            "done:",
            "  ret void",
            "}",
        ]
        outer.module.functions.append("\n".join(lines))

    def store_context(self, count: str) -> str:
        """Fill the context in the calling function and return its address."""
        outer, struct = self.outer, self.struct
        context = "%" + outer.fresh("context")
        outer.stack.append(f"  {context} = alloca {struct}, align 8")
        for i, argument in enumerate(["i64 0", f"i64 {count}", *self.arguments]):
            field_at = outer.define(f"getelementptr {struct}, ptr {context}, i64 0, i32 {i}", "p")
            outer.line(f"store {argument}, ptr {field_at}, align 8")
        return context


def _free(loop: For) -> tuple[list[Buffer], list[Var]]:
    """Buffers and variables that the body of `loop` uses and does not define, in order."""
    buffers: dict[Buffer, None] = {}
    variables: dict[Var, None] = {}
    bound: set[Var] = {loop.var}
    own: set[Buffer] = set()
    for stmt in walk(loop.body):
        if isinstance(stmt, For):
            bound.add(stmt.var)
        if isinstance(stmt, Allocate):
            own.add(stmt.buffer)
        buffers.update(dict.fromkeys(accessed(stmt)))
        for expr in stmt_exprs(stmt):
            variables.update(dict.fromkeys(free_vars(expr)))
    return [b for b in buffers if b not in own], [v for v in variables if v not in bound]
