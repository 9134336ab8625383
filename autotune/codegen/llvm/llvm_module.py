"""Writes the whole module of one function: its text and entry point.

A kernel is `i32 NAME(ptr arrays..., i64 sizes..., i32 threads)`; the result is 0, or 1 when
scratch memory could not be allocated.
"""

from __future__ import annotations

from dataclasses import dataclass

from autotune.codegen.llvm.emitter import Emitter
from autotune.codegen.llvm.llvm_types import symbol
from autotune.codegen.llvm.module_text import ModuleText
from autotune.ir.algebra.canonical_sums import INF
from autotune.ir.stmt import PrimFunc
from autotune.ir.visitor import recursive


@dataclass(frozen=True)
class LLVMSource:
    """LLVM assembly of one function."""

    #: The module.
    text: str
    #: Symbol of the kernel, `i32 entry(ptr arrays..., i64 sizes..., i32 threads)`.
    entry: str
    #: Whether it has a parallel loop and so calls the OpenMP runtime.
    uses_threads: bool


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
        ahead=info.prefetch_distances,
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
    return LLVMSource(module.assemble(), entry, module.uses_threads)
