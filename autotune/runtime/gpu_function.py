"""A function of several kernels on a GPU: its source, its machine code, and calls with arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from autotune.codegen.cuda import CUDAKernel, CUDASource, emit
from autotune.errors import ArgumentError, TargetError
from autotune.ir import dtypes
from autotune.ir.expr import Buffer, Expr, SizeVar
from autotune.ir.interpreter import evaluate
from autotune.ir.stmt import Function
from autotune.runtime import cuda
from autotune.runtime.arguments import packed_arguments
from autotune.runtime.cache import default_cache
from autotune.runtime.gpu_arrays import GpuArray, device_of, gpu_array
from autotune.runtime.launch import LaunchSizes, check_launch
from autotune.runtime.nvrtc import Cubin, compile_cubin
from autotune.runtime.signature import Parameter, Signature, extent_value
from autotune.target import Target


class GPUFunction:
    """A function for GPUs, called with its arrays in order.

    The source is there at once; it is compiled when it is first needed.

    Parameters
    ----------
    function : Function
        In its final form for GPUs.
    target : Target
        Of kind "cuda"; without -arch it is compiled for the GPU whose arrays it is called with.

    Attributes
    ----------
    function, target
        As given.
    signature : Signature
    module : CUDASource
        Its text and kernels.
    """

    def __init__(self, function: Function, target: Target) -> None:
        self.function = function
        self.target = target
        self.signature = Signature.of(function)
        self.module: CUDASource = emit(function)
        self._loaded: dict[tuple[int, str], cuda.LoadedKernel] = {}

    @property
    def source(self) -> str:
        """Its CUDA C++."""
        return self.module.text

    @cached_property
    def cubin(self) -> Cubin:
        """Machine code for the target's architecture, without -arch for the first GPU.

        Raises
        ------
        CompileError, TargetError
            If the compiler refuses the source; or there is no compiler, or nothing says for what.
        """
        return self._compiled(self.target.options.get("arch") or cuda.arch_of(0))

    def _compiled(self, arch: str) -> Cubin:
        return compile_cubin(self.source, arch, cache=default_cache())

    # -- calls -------------------------------------------------------------------------------------

    def bind(self, *arrays: Any) -> Callable[[], None]:
        """Return a call without arguments, for calls in a row."""
        return partial(self, *arrays)

    def __call__(self, *arrays: Any) -> None:
        """Run on arrays of one GPU, inputs then outputs, on CuPy's current stream.

        The call does not wait for the kernels.

        Raises
        ------
        ArgumentError
            If an array does not have the dtype, shape, layout or place that is needed.
        LaunchError
            If the GPU does not allow a launch.
        TargetError
            If there is no GPU that can be used, or it is another than the target's.
        """
        expected = self.signature.parameters
        if len(arrays) != len(expected):
            names = ", ".join(p.name for p in expected)
            raise ArgumentError(
                f"{self.signature.name} takes {len(expected)} arrays ({names}), got {len(arrays)}"
            )
        cuda.device_count()  # what is missing is told before what is wrong with arrays
        device = device_of(arrays[0])
        stream = cuda.stream_handle(None, device)
        held = [self._held(number, array, device, stream) for number, array in enumerate(arrays)]
        sizes = self._sizes(held)
        memory: dict[Buffer, Any] = dict(zip(self.function.params, held, strict=True))
        for buffer in self.module.workspace:
            shape = tuple(int(evaluate(extent, sizes)) for extent in buffer.shape)
            memory[buffer] = cuda.empty(shape, dtypes.numpy_dtype(buffer.dtype), device)
        for kernel in self.module.kernels:
            self._launch(kernel, memory, sizes, device, stream)

    def _label(self, number: int) -> str:
        name = self.signature.parameters[number].name
        return f"{self.signature.name}: argument {number + 1}, {name!r},"

    def _held(self, number: int, array: Any, device: int, stream: int) -> GpuArray:
        """Return an argument as memory of the GPU, with its type and place checked."""
        parameter, label = self.signature.parameters[number], self._label(number)
        try:
            found = gpu_array(array, device, stream)
        except ArgumentError as error:
            raise ArgumentError(f"{label} {error}") from None
        if found.dtype != parameter.dtype or len(found.shape) != len(parameter.shape):
            raise ArgumentError(
                f"{label} must be {parameter.dtype} with {len(parameter.shape)} dimensions, "
                f"got {found.dtype} {found.shape}"
            )
        alignment = max(kernel.alignment for kernel in self.module.kernels)
        if found.address % alignment and found.size:
            raise ArgumentError(
                f"{label} must begin at a multiple of {alignment} bytes, got address "
                f"{found.address:#x}: a new array does"
            )
        if parameter.is_output and not found.writeable:
            raise ArgumentError(f"{label} is written, so it must be writeable")
        return found

    def _sizes(self, held: Sequence[GpuArray]) -> dict[SizeVar, int]:
        """Return the sizes that the shapes tell, which all shapes must agree with."""
        known: dict[str, int] = {}
        parameters = self.signature.parameters
        for parameter, array in zip(parameters, held, strict=True):
            for extent, length in zip(parameter.shape, array.shape, strict=True):
                if isinstance(extent, str):
                    known.setdefault(extent, length)
        for number, (parameter, array) in enumerate(zip(parameters, held, strict=True)):
            wanted = _shape(parameter, known)
            if array.shape != wanted:
                raise ArgumentError(
                    f"{self._label(number)} must have the shape {wanted}, got {array.shape}"
                )
        names = zip(self.function.sizes, self.signature.sizes, strict=True)
        return {size: known[name] for size, name in names}

    def _launch(
        self,
        kernel: CUDAKernel,
        memory: Mapping[Buffer, Any],
        sizes: Mapping[SizeVar, int],
        device: int,
        stream: int,
    ) -> None:
        own = kernel.kernel.function
        grid, block = (
            _numbers(extents, sizes) for extents in (kernel.kernel.grid, kernel.kernel.block)
        )
        if 0 in (*grid, *block):  # a size is 0: there is nothing to do
            return
        launched = LaunchSizes.of(kernel.entry, grid, block, kernel.dynamic_shared_bytes)
        loaded = self._on(device, kernel.entry)
        check_launch(
            kernel.entry, launched, loaded.usage, cuda.limits_of(device), f"cuda:{device}"
        )
        arguments = [memory[buffer] for buffer in own.params]
        arguments += [np.int64(sizes[size]) for size in own.sizes]
        widths = [8] * len(arguments)
        values = packed_arguments(kernel.entry, widths, arguments, device, stream)
        loaded.launch(launched.grid, launched.block, launched.shared_bytes, stream, values)

    def _on(self, device: int, entry: str) -> cuda.LoadedKernel:
        """Return one of the kernels in the memory of a GPU."""
        loaded = self._loaded.get((device, entry))
        if loaded is None:
            there, arch = cuda.arch_of(device), self.target.options.get("arch")
            if arch is not None and arch.rstrip("af") != there:
                raise TargetError(
                    f"{self.signature.name} was built for {arch}, and cuda:{device} is {there}: "
                    f"build it for -arch={there}"
                )
            loaded = cuda.LoadedKernel(self._compiled(arch or there), entry, device)
            self._loaded[device, entry] = loaded
        return loaded


def _shape(parameter: Parameter, sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(extent_value(extent, sizes) for extent in parameter.shape)


def _numbers(extents: Sequence[Expr], sizes: Mapping[SizeVar, int]) -> tuple[int, ...]:
    return tuple(int(evaluate(extent, sizes)) for extent in extents)
