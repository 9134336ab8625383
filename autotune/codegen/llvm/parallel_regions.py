"""Parallel loops: the body becomes a function, of which each OpenMP thread runs a part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from autotune.codegen.llvm.function_builder import FunctionBuilder
from autotune.codegen.llvm.index.index_arithmetic import IndexArithmetic
from autotune.codegen.llvm.index.linear_arithmetic import LinearArithmetic
from autotune.codegen.llvm.index.linear_forms import Linear, constant
from autotune.codegen.llvm.llvm_types import symbol
from autotune.codegen.llvm.memory.addresses import Addresses
from autotune.codegen.llvm.memory.memory_versions import MemoryVersions
from autotune.codegen.llvm.memory.stack_frame import StackFrame
from autotune.codegen.llvm.module_text import ModuleText
from autotune.ir.expr import Buffer, Var
from autotune.ir.stmt import Allocate, For, LoopKind, Store
from autotune.ir.visitor import accessed, free_vars, stmt_exprs, walk


@dataclass(frozen=True)
class OutlinedLoop:
    """A parallel loop as a separate function, and the values that it captures."""

    #: Symbol of the function.
    name: str
    #: Loops directly inside each other, outermost first, whose iterations are numbered through.
    loops: tuple[For, ...]
    #: What the number of iterations never exceeds; infinite if unknown.
    length: float
    #: Names of the parameters that point to buffers.
    buffers: dict[Buffer, str]
    #: Those buffers that the loop writes.
    stored: frozenset[Buffer]
    #: Names of the parameters that hold variables; they follow the buffers.
    variables: dict[Var, str]
    #: Variables whose values are known.
    constants: dict[Var, Linear]


@dataclass(eq=False, repr=False)
class ParallelRegions:
    """Launches the parallel loops of one function."""

    module: ModuleText
    #: Symbol of the function, from which those of its parallel loops derive.
    name: str
    #: Operand with the number of threads; empty if loops must stay serial.
    threads: str
    builder: FunctionBuilder
    linear: LinearArithmetic
    index: IndexArithmetic
    addresses: Addresses
    versions: MemoryVersions
    frame: StackFrame
    #: Writes the text of an outlined function.
    outline: Callable[[OutlinedLoop], str]
    #: Number of loops that were launched.
    count: int = field(init=False, default=0)

    def launch(self, loop: For) -> None:
        """Call the loop's body through GOMP_parallel; each thread takes one contiguous part.

        If parallel loops follow directly, the parts are of the iterations of all of them.
        """
        builder = self.builder
        self.count += 1
        self.module.uses_threads = True
        loops = _nest(loop)
        extent = constant(1)
        for each in loops:
            extent = self.linear.product(extent, self.index.form(each.extent))
        region = self._captured(loops, extent)
        arguments = self._arguments(region)
        self._write_functions(region, arguments)
        count = self.linear.materialise(extent)
        builder.declare("llvm.smin.i64", "declare i64 @llvm.smin.i64(i64, i64)")
        wide = builder.define(f"sext i32 {self.threads} to i64")
        asked = builder.define(f"call i64 @llvm.smin.i64(i64 {wide}, i64 {count})")
        if loop.var in self.module.num_threads:
            most = self.linear.materialise(self.index.form(self.module.num_threads[loop.var]))
            asked = builder.define(f"call i64 @llvm.smin.i64(i64 {asked}, i64 {most})")
        labels = [builder.fresh(text) for text in ("alone", "team", "joined")]
        alone = builder.define(f"icmp sle i64 {asked}, 1")
        builder.line(f"br i1 {alone}, label %{labels[0]}, label %{labels[1]}")
        builder.code.begin(labels[0])
        operands = ", ".join([*arguments, "i64 0", f"i64 {count}"])
        own = builder.define(f"call i32 @{region.name}({operands})")
        builder.line(f"br label %{labels[2]}")
        builder.code.begin(labels[1])
        theirs = self._fork(region.name, asked, [f"i64 {count}", *arguments])
        builder.line(f"br label %{labels[2]}")
        builder.code.begin(labels[2])
        status = builder.define(f"phi i32 [ {own}, %{labels[0]} ], [ {theirs}, %{labels[1]} ]")
        self._check(status)
        self.versions.begin_epoch()

    def _captured(self, loops: tuple[For, ...], extent: Linear) -> OutlinedLoop:
        """Return the loops with the values that they capture."""
        buffers, variables = _free(loops[0])
        buffers = [buffer for buffer in buffers if buffer in self.addresses.pointers]
        forms = {var: self.index.form(var) for var in variables}
        taken = [var for var in variables if not forms[var].is_const]
        names = [symbol(b.name) for b in buffers] + [symbol(v.name) for v in taken]
        names = [f"%{name}.c{i}" for i, name in enumerate(names)]
        return OutlinedLoop(
            name=f"{self.name}.parallel{self.count}",
            loops=loops,
            length=extent.bounds[1],
            buffers=dict(zip(buffers, names, strict=False)),
            stored=frozenset(s.buffer for s in walk(loops[-1].body) if isinstance(s, Store)),
            variables=dict(zip(taken, names[len(buffers) :], strict=True)),
            constants={var: form for var, form in forms.items() if form.is_const},
        )

    def _arguments(self, region: OutlinedLoop) -> list[str]:
        """Return the typed arguments for the outlined function."""
        pointers = [f"ptr {self.addresses.pointers[buffer]}" for buffer in region.buffers]
        values = [self.linear.materialise(self.index.form(var)) for var in region.variables]
        return pointers + [f"i64 {value}" for value in values]

    def _write_functions(self, region: OutlinedLoop, arguments: Sequence[str]) -> None:
        """Add the outlined function and the one that each thread starts in."""
        text = self.outline(region).replace(") nounwind {", ") noinline nounwind {", 1)
        self.module.functions.append(text)
        self.builder.declare("omp_get_thread_num", "declare i32 @omp_get_thread_num()")
        self.builder.declare("omp_get_num_threads", "declare i32 @omp_get_num_threads()")
        kinds = ["i64", *(argument.split()[0] for argument in arguments)]
        self.module.functions.append(_launcher(region.name, kinds))

    def _fork(self, name: str, threads: str, fields: Sequence[str]) -> str:
        """Run the parts on some number of threads; return the status in the context."""
        builder, kind = self.builder, _context([operand.split()[0] for operand in fields])
        context = self.frame.alloca("context", kind, 8)
        for i, operand in enumerate(["i64 0", *fields]):
            at = builder.define(f"getelementptr {kind}, ptr {context}, i64 0, i32 {i}", "p")
            builder.line(f"store {operand}, ptr {at}, align 8")
        narrow = builder.define(f"trunc i64 {threads} to i32")
        builder.declare("GOMP_parallel", "declare void @GOMP_parallel(ptr, ptr, i32, i32)")
        launcher = f"ptr @{name}.launch"
        builder.line(f"call void @GOMP_parallel({launcher}, ptr {context}, i32 {narrow}, i32 0)")
        return builder.define(f"load i32, ptr {context}, align 8")

    def _check(self, status: str) -> None:
        """Return from the function if a part has failed."""
        builder = self.builder
        bad = builder.define(f"icmp ne i32 {status}, 0")
        ok, failed = builder.fresh("ok"), builder.fresh("failed")
        builder.line(f"br i1 {bad}, label %{failed}, label %{ok}")
        builder.code.begin(failed)
        builder.line(f"store i32 {status}, ptr %status")
        builder.line("br label %end")
        builder.code.begin(ok)


def _nest(loop: For) -> tuple[For, ...]:
    """Return a parallel loop and those directly inside whose lengths are always the same."""
    loops = [loop]
    while isinstance(inner := loops[-1].body, For) and inner.kind is LoopKind.PARALLEL:
        if any(v is around.var for v in free_vars(inner.extent) for around in loops):
            break
        loops.append(inner)
    return tuple(loops)


def _context(kinds: Sequence[str]) -> str:
    """Type of the context: status, extent, and the captured values, of types `kinds`."""
    return f"{{ {', '.join(['i64', *kinds])} }}"


def _launcher(name: str, kinds: Sequence[str]) -> str:
    """Text of the function that each thread starts in: it finds its part and runs the body."""
    struct = _context(kinds)
    lines = [f"define internal void @{name}.launch(ptr %context) nounwind {{"]
    operands = []
    for i, kind in enumerate(kinds):
        lines.append(f"  %at.{i} = getelementptr {struct}, ptr %context, i64 0, i32 {i + 1}")
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
    return "\n".join(lines)


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
