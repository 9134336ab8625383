"""The whole module of one function: its text, its entry point and what it needs from outside."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.codegen.llvm.body import UNROLL_METADATA, Body, ModuleText
from autotune.codegen.llvm.math import definitions
from autotune.codegen.llvm.types import symbol
from autotune.ir.stmt import Function
from autotune.ir.visitor import recursive


@dataclass(frozen=True)
class LLVMSource:
    """LLVM assembly of one function.

    Attributes
    ----------
    text : str
        The module.
    entry : str
        Symbol of the kernel, `i32 entry(ptr arrays..., i64 sizes..., i32 threads)`.
    uses_threads : bool
        Whether it has a parallel loop and so calls the OpenMP runtime.
    """

    text: str
    entry: str
    uses_threads: bool


@recursive
def emit(function: Function, fast_math: bool = False) -> LLVMSource:
    """Write a function in final form as LLVM assembly.

    Arrays are promised not to overlap (outputs with anything) and to be aligned to their elements
    only. Float multiplications and additions may be fused; nothing else is reordered, unless
    `fast_math` allows what `Target.fast_math` says.

    `function.attrs["nontemporal"]` names buffers that are written once, in whole cache lines, and
    not read soon: their vectors are stored past the caches (a kernel that only moves memory runs
    up to twice as fast, one that writes parts of lines far slower).

    Raises
    ------
    CodegenError
        If the function holds something that has no meaning on a CPU: knobs without a value,
        thread axes, barriers, unknown intrinsics.
    """
    streamed = frozenset(function.attrs.get("nontemporal", ()))
    module = ModuleText(streamed=streamed, fast_math=fast_math)
    entry = f"kernel_{symbol(function.name)}"
    body = Body(module, entry, threads="%threads")
    parameters = []
    for number, buffer in enumerate(function.params):
        ref = f"%{symbol(buffer.name)}.a{number}"
        body.buffers[buffer] = ref
        access = "" if buffer in function.outputs else " readonly"
        parameters.append(f"ptr noalias{access} {ref}")
    for number, size in enumerate(function.sizes):
        ref = f"%{symbol(size.name)}.n{number}"
        body.env[size] = body.atom(ref, 0, None)
        parameters.append(f"i64 {ref}")
    parameters.append("i32 %threads")
    text = body.finish(parameters, "", lambda: body.stmt(function.body))
    return LLVMSource(_assemble(module, text), entry, module.uses_threads)


def _assemble(module: ModuleText, entry_text: str) -> str:
    for used in module.math.values():
        module.declarations.update(definitions(*used))
    parts = [*module.declarations.values(), "", *module.functions, entry_text]
    if module.uses_hints:
        parts.append('!0 = !{!"branch_weights", i32 2000, i32 1}')
    if module.streamed:
        parts.append("!1 = !{i32 1}")
    if module.unrolled:
        parts.append(f'!{UNROLL_METADATA} = !{{!"llvm.loop.unroll.full"}}')
        parts += module.unrolled
    return "\n".join(parts) + "\n"
