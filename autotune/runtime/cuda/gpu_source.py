"""Functions in final form as CUDA C++, with how their kernels are launched.

Most are written by `codegen.cuda`; templates may return kernels as text.
"""

from __future__ import annotations

from autotune.codegen.cuda.cuda_source import CUDAKernel, emit
from autotune.codegen.cuda.device_source import device_header
from autotune.codegen.raw_text import constant_value, raw_text
from autotune.ir.stmt import Allocate, CallForm, For, PrimFunc, Raw
from autotune.ir.visitor import all_allocated, is_raw, walk
from autotune.lowering.target_limits import launches
from autotune.runtime.cuda.gpu_program import GpuLaunch, GpuSource
from autotune.runtime.cuda.launch_limits import LaunchSizes
from autotune.runtime.signature import ArrayParameter, Signature, extent_of, size_names


def gpu_source(function: PrimFunc) -> GpuSource:
    """Return a function in final form for GPUs as text, whether loops or a template's text."""
    return (raw_source if is_raw(function) else kernel_source)(function)


def kernel_source(function: PrimFunc) -> GpuSource:
    """Return a function in final form for GPUs as text; needs no compiler.

    Raises CodegenError if the function has no meaning on a GPU.
    """
    source = emit(function)
    names = size_names(function)
    arrays = [*function.params, *source.workspace]
    numbers = {buffer: number for number, buffer in enumerate(arrays)}
    workspace = [
        ArrayParameter(b.name, b.dtype, tuple(extent_of(e, names) for e in b.shape), True)
        for b in source.workspace
    ]

    def launch(kernel: CUDAKernel) -> GpuLaunch:
        own = kernel.kernel
        (gx, gy, gz), (bx, by, bz) = (
            [extent_of(extent, names) for extent in extents] for extents in (own.grid, own.block)
        )
        return GpuLaunch(
            kernel.entry,
            (gx, gy, gz),
            (bx, by, bz),
            kernel.dynamic_shared_bytes,
            tuple(numbers[buffer] for buffer in own.function.params),
            tuple(names[size] for size in own.function.sizes),
        )

    return GpuSource(
        Signature.of(function),
        source.text,
        tuple(map(launch, source.kernels)),
        tuple(workspace),
    )


def raw_source(function: PrimFunc) -> GpuSource:
    """Return an analysed function of kernels as text with its launches; needs no compiler.

    Knobs are macros before the text, in which a compiler counts lines as whoever wrote it does.
    """
    if not is_raw(function):
        raise TypeError(f"{function.name} is not a kernel as text")
    nests = list(launches(function.body))
    inside = [next(s for s in walk(nest) if isinstance(s, Raw)) for nest in nests]
    memory = [
        ArrayParameter(b.name, b.dtype, tuple(map(constant_value, b.shape)), True)
        for b in all_allocated(function.body, "global")
    ]
    form = inside[0].call or CallForm(tuple(range(len(function.params) + len(memory))))
    return GpuSource(
        Signature.of(function),
        raw_text(inside[0]),
        tuple(_launch(raw.name, nest, form) for raw, nest in zip(inside, nests, strict=True)),
        workspace=tuple(memory),
        header=f"{device_header()}\n" if inside[0].header else "",
        flags=inside[0].command,
        copied=form.copied,
        scratch=form.scratch,
    )


def _launch(name: str, nest: For, form: CallForm) -> GpuLaunch:
    """Return the launch of a kernel as text."""
    extents: dict[str, int] = {}
    shared = 0
    for stmt in walk(nest):
        match stmt:
            case For(extent=extent, thread_tag=tag):
                extents[tag] = constant_value(extent)
            case Allocate(buffer):
                shared = constant_value(buffer.shape[0])
    grid, block = (
        [extents.get(f"{level}.{axis}", 1) for axis in "xyz"] for level in ("blockIdx", "threadIdx")
    )
    sizes = LaunchSizes.of(name, grid, block, shared)
    return GpuLaunch(name, sizes.grid, sizes.block, sizes.shared_bytes, form.arguments)
