"""The emitter of one LLVM function: it combines the parts that write the function and its module.

A kernel is `i32 NAME(ptr arrays..., i64 sizes..., i32 threads)`; the result is 0, or 1 when
scratch memory could not be allocated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from autotune.codegen.llvm.binary_operations import BinaryOperations
from autotune.codegen.llvm.comparisons import Comparisons
from autotune.codegen.llvm.conversions import Conversions
from autotune.codegen.llvm.function_builder import FunctionBuilder
from autotune.codegen.llvm.index.index_arithmetic import IndexArithmetic
from autotune.codegen.llvm.index.linear_arithmetic import LinearArithmetic
from autotune.codegen.llvm.integer_vectors import IntegerVectors, LaneMasks
from autotune.codegen.llvm.intrinsic_calls import IntrinsicCalls
from autotune.codegen.llvm.llvm_expressions import ExpressionEmitter
from autotune.codegen.llvm.llvm_statements import StatementEmitter
from autotune.codegen.llvm.llvm_types import symbol
from autotune.codegen.llvm.memory.addresses import ALIGNMENT, Addresses
from autotune.codegen.llvm.memory.cache_hints import CacheHints, busiest_stores
from autotune.codegen.llvm.memory.loads_stores import LoadsStores
from autotune.codegen.llvm.memory.memory_versions import MemoryVersions
from autotune.codegen.llvm.memory.stack_frame import StackFrame
from autotune.codegen.llvm.memory.transposed_loads import TransposedLoads
from autotune.codegen.llvm.module_text import ModuleText
from autotune.codegen.llvm.parallel_regions import OutlinedLoop, ParallelRegions
from autotune.ir import dtypes
from autotune.ir.algebra.canonical_sums import INF
from autotune.ir.algebra.intervals import Bounds
from autotune.ir.expr import Buffer, Expr, Load, Var
from autotune.ir.stmt import PrimFunc
from autotune.ir.visitor import recursive


class Emitter:
    """Writes one function of a module.

    The constructor of a part gets the parts that it uses. `IndexArithmetic` evaluates indices and
    `ExpressionEmitter` all other expressions. Each needs the other, so the emitter itself is the
    `Evaluator` of index arithmetic.

    `module`: collects declarations and outlined functions.
    `name`: symbol of this function, from which those of its parallel loops derive.
    `threads`: operand with the number of threads; empty if loops must stay serial.
    """

    def __init__(self, module: ModuleText, name: str, threads: str = "") -> None:
        builder = FunctionBuilder(module.declarations)
        linear = LinearArithmetic(builder)
        index = IndexArithmetic(builder, linear, self)
        masks, versions, conversions = LaneMasks(builder), MemoryVersions(), Conversions(builder)
        vectors = IntegerVectors(builder, linear, index, self)
        addresses = Addresses(builder, linear, index, vectors, module.lines)
        prefetches, busiest = module.prefetches, module.busiest
        hints = CacheHints(builder, index, addresses, prefetches, busiest, module.streamed)
        memory = LoadsStores(
            builder, index, vectors, masks, conversions, addresses, versions, hints
        )
        calls = IntrinsicCalls(builder, module.math)
        operations = BinaryOperations(builder, conversions, calls, module.fast_math)
        comparisons = Comparisons(builder, linear, index, vectors, self)
        expressions = ExpressionEmitter(
            builder,
            index,
            vectors,
            masks,
            memory,
            versions,
            conversions,
            operations,
            comparisons,
            calls,
        )
        frame = StackFrame(builder, linear, index, addresses)
        parallel = ParallelRegions(
            module,
            name,
            threads,
            builder,
            linear,
            index,
            addresses,
            versions,
            frame,
            self._outlined,
        )
        self.statements = StatementEmitter(
            module,
            builder,
            linear,
            index,
            masks,
            memory,
            versions,
            expressions,
            frame,
            parallel,
            TransposedLoads(builder, index, vectors, memory),
        )
        self._module, self._name = module, name
        self._builder, self._linear, self._index = builder, linear, index
        self._addresses, self._hints, self._frame = addresses, hints, frame
        self._expressions, self._parallel = expressions, parallel

    # -- the evaluator for index arithmetic
    # ---------------------------------------------------------------

    def value(self, expr: Expr) -> str:
        """Operand text of the value of `expr`."""
        return self._expressions.value(expr)

    def load_lane(self, load: Load, lane: int) -> str:
        """Return the operand text of one lane of a load."""
        return self._expressions.load_lane(load, lane)

    # -- the function as a whole -------------------------------------------------------------------

    def array_parameter(self, buffer: Buffer, ref: str, written: bool) -> str:
        """Text of a parameter that points to a buffer, which is in scope then."""
        self._addresses.pointers[buffer] = ref
        return f"ptr noalias{'' if written else ' readonly'} {ref}"

    def size_parameter(self, var: Var, ref: str, bounds: Bounds) -> str:
        """Text of a parameter with the value of a variable, which is in scope then."""
        self._index.env[var] = self._linear.atom(ref, bounds)
        return f"i64 {ref}"

    def align_to_line(self, var: Var, buffer: Buffer) -> None:
        """Set `var` to the number of elements of a parameter before one that begins a line."""
        most = ALIGNMENT // dtypes.itemsize(buffer.dtype) - 1
        ref = self._frame.elements_before_line(buffer)
        self._index.env[var] = self._linear.atom(ref, (0, most))

    def finish(self, parameters: list[str], linkage: str, write: Callable[[], None]) -> str:
        """Return the text of the function whose statements `write` emits."""
        with self._builder.region("body") as body:
            write()
        signature = f"define {linkage}i32 @{self._name}({', '.join(parameters)}) nounwind"
        lines = [f"{signature} {{", "entry:", *self._frame.lines]
        fails = self._frame.uses_heap or self._parallel.count > 0
        if fails:
            lines += ["  %status = alloca i32", "  store i32 0, ptr %status"]
        lines += self._builder.code.lines
        lines += self._frame.enter()
        lines += body.lines
        lines += ["  br label %end", "end:"]
        if self._hints.streams:
            lines.append("  fence seq_cst")  # streaming stores reach memory late, in any order
        lines += self._frame.leave()
        if fails:
            lines.append("  %result = load i32, ptr %status")
        lines += [f"  ret i32 {'%result' if fails else '0'}", "}"]
        return "\n".join(lines)

    def _outlined(self, region: OutlinedLoop) -> str:
        """Return the text of the function that runs the iterations [%from, %to) of loops."""
        inner = Emitter(self._module, region.name)
        parameters = []
        for buffer, ref in region.buffers.items():
            parameters.append(inner.array_parameter(buffer, ref, buffer in region.stored))
            if buffer in self._addresses.aligned:
                inner._addresses.aligned.add(buffer)
        for var, ref in region.variables.items():
            parameters.append(inner.size_parameter(var, ref, self._index.form(var).bounds))
        inner._index.env.update(region.constants)
        start = inner._linear.atom("%from", (0, INF))
        stop = inner._linear.atom("%to", (-INF, region.length))
        return inner.finish(
            [*parameters, "i64 %from", "i64 %to"],
            "internal ",
            lambda: inner.statements.numbered_loops(region.loops, start, stop),
        )


@dataclass(frozen=True)
class LLVMSource:
    """LLVM assembly of one function."""

    #: The module.
    text: str
    #: Symbol of the kernel, `i32 entry(ptr arrays..., i64 sizes..., i32 threads)`.
    entry: str
    #: Whether it has a parallel loop and so calls the OpenMP runtime.
    uses_threads: bool
    #: Whether instructions are best left in the order of the module. LLVM's scheduler moves the
    #: masked loads of the ends of rows to the front, until sums no longer fit in the registers.
    keeps_order: bool = False


@recursive
def emit(function: PrimFunc, fast_math: bool = False, has_avx512: bool = False) -> LLVMSource:
    """Write a function in final form as LLVM assembly.

    The code assumes that outputs overlap no other array, and that arrays are aligned to their
    elements. Float multiplications and additions may be fused; nothing else is reordered, unless
    `fast_math` is set (see `Target.fast_math`). `has_avx512` allows instructions of AVX-512.

    Raises CodegenError if the function contains a node without a meaning on a CPU: knobs without a
    value, thread axes, barriers, unknown intrinsics.
    """
    info = function.info
    module = ModuleText(
        streamed=info.nontemporal,
        prefetches=info.prefetches,
        busiest=busiest_stores(function.body, info.prefetches),
        num_threads=info.num_threads,
        lines={buffer: var for var, buffer in info.line_offsets.items()},
        fast_math=fast_math,
        has_avx512=has_avx512,
    )
    entry = f"kernel_{symbol(function.name)}"
    emitter = Emitter(module, entry, threads="%threads")
    parameters = []
    for number, buffer in enumerate(function.params):
        ref = f"%{symbol(buffer.name)}.a{number}"
        written = buffer in function.outputs
        parameters.append(emitter.array_parameter(buffer, ref, written))
    for number, size in enumerate(function.sizes):
        parameters.append(emitter.size_parameter(size, f"%{symbol(size.name)}.n{number}", (0, INF)))
    parameters.append("i32 %threads")
    for var, buffer in info.line_offsets.items():
        emitter.align_to_line(var, buffer)
    text = emitter.finish(parameters, "", lambda: emitter.statements.stmt(function.body))
    module.functions.append(text)
    ordered = bool(function.sizes) and not module.math and has_avx512
    return LLVMSource(module.assemble(), entry, module.uses_threads, ordered)
