"""The whole module of one function: its text, its entry point and what it needs from outside."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.codegen.llvm.addresses import ALIGNMENT
from autotune.codegen.llvm.linear_forms import Linear
from autotune.codegen.llvm.llvm_statements import UNROLL_METADATA, Body, ModuleText
from autotune.codegen.llvm.llvm_types import symbol
from autotune.codegen.llvm.math import definitions
from autotune.ir import dtypes
from autotune.ir.expr import Buffer
from autotune.ir.stmt import PrimFunc
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
def emit(function: PrimFunc, fast_math: bool = False) -> LLVMSource:
    """Write a function in final form as LLVM assembly.

    Arrays are promised not to overlap (outputs with anything) and to be aligned to their elements
    only. Float multiplications and additions may be fused; nothing else is reordered, unless
    `fast_math` allows what `Target.fast_math` says.

    `function.attrs["nontemporal"]` names buffers that are written once, in whole cache lines, and
    not read soon: their vectors are stored past the caches (a kernel that only moves memory runs
    up to twice as fast, one that writes parts of lines far slower). `function.attrs["ahead"]` says
    how many elements behind those that are read of a buffer others are fetched into the caches.

    Raises
    ------
    CodegenError
        If the function holds something that has no meaning on a CPU: knobs without a value,
        thread axes, barriers, unknown intrinsics.
    """
    streamed = frozenset(function.attrs.get("nontemporal", ()))
    module = ModuleText(
        streamed=streamed,
        ahead=function.attrs.get("ahead", {}),
        lines={buffer: var for var, buffer in function.lines.items()},
        fast_math=fast_math,
    )
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
    for number, (var, buffer) in enumerate(function.lines.items()):
        body.env[var] = _before_line(body, buffer, number)
    text = body.finish(parameters, "", lambda: body.stmt(function.body))
    return LLVMSource(_assemble(module, text), entry, module.uses_threads)


def _before_line(body: Body, buffer: Buffer, number: int) -> Linear:
    """Return how many elements a parameter has before one that begins a cache line."""
    size = dtypes.itemsize(buffer.dtype)
    body.stack += [
        f"  %at.{number} = ptrtoint ptr {body.buffers[buffer]} to i64",
        f"  %back.{number} = sub i64 0, %at.{number}",
        f"  %bytes.{number} = and i64 %back.{number}, {ALIGNMENT - 1}",
        f"  %line.{number} = lshr i64 %bytes.{number}, {size.bit_length() - 1}",
    ]
    return body.atom(f"%line.{number}", 0, ALIGNMENT // size - 1)


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
