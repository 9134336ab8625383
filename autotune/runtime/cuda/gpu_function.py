"""A function for GPUs: its text, its machine code, and calls with arrays in a GPU's memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from autotune.errors import ArgumentError, TargetError
from autotune.ir import dtypes
from autotune.runtime.argument_checks import ArgumentChecker
from autotune.runtime.cuda import cupy_driver
from autotune.runtime.cuda.gpu_arrays import GpuArray, device_of, gpu_array
from autotune.runtime.cuda.gpu_program import GpuLaunch, GpuProgram, GpuSource, arch_for
from autotune.runtime.cuda.kernel_arguments import packed_arguments
from autotune.runtime.cuda.launch_limits import check_launch
from autotune.runtime.cuda.nvrtc import Cubin
from autotune.runtime.signature import Signature, extent_value
from autotune.target import Target


class GPUFunction:
    """A function for GPUs, called with its arrays in order.

    Its text is there at once; it is compiled when it is first needed.

    Parameters
    ----------
    module : GpuSource
        Its text, and how its kernels are launched.
    target : Target
        Of kind "cuda"; without -arch it is compiled for the GPU whose arrays it is called with.

    Attributes
    ----------
    module, target
        As given.
    """

    def __init__(self, module: GpuSource, target: Target) -> None:
        self.module = module
        self.target = target
        self._checker = ArgumentChecker(module.signature)
        self._loaded: dict[int, list[cupy_driver.LoadedKernel]] = {}

    @property
    def signature(self) -> Signature:
        """What it takes."""
        return self.module.signature

    @property
    def source(self) -> str:
        """Its CUDA C++, without the device header of kernels as text."""
        return self.module.text

    @cached_property
    def program(self) -> GpuProgram:
        """Compiled for the target's architecture, without -arch for the first GPU.

        Raises
        ------
        CompileError, LaunchError, TargetError
            As `GpuSource.compiled`.
        """
        return self.module.compiled(arch_for(self.target))

    @property
    def cubin(self) -> Cubin:
        """Machine code of `program`."""
        return self.program.cubin

    def bind(self, *arrays: Any) -> Callable[[], None]:
        """Return a call without arguments, for calls in a row."""
        return partial(self, *arrays)

    def __call__(self, *arrays: Any) -> None:
        """Run on arrays of one GPU, inputs then outputs, without waiting for it.

        Arrays are of any library (DLPack or ``__cuda_array_interface__``), and are never copied.
        Kernels run on CuPy's current stream.

        Raises
        ------
        ArgumentError
            If an array does not have the dtype, shape, layout, place or access that is needed, or
            an output overlaps another argument.
        LaunchError
            If the device does not allow a launch, or it fails.
        TargetError
            If there is no GPU that can be used, or it is another than this is compiled for.
        """
        self._require_gpu()  # what is missing is told before what is wrong with arrays
        device = device_of(arrays[0]) if arrays else 0
        stream = cupy_driver.stream_handle(None, device)
        held, sizes = self._checked(arrays, device, stream)
        held += self._workspace(sizes, device)
        for kernel, launch in zip(self._on(device), self.module.launches, strict=True):
            self._launch(kernel, launch, held, sizes, stream)

    def _require_gpu(self) -> None:
        try:
            cupy_driver.device_count()
        except TargetError as error:
            if self.module.header:  # a kernel as text, which runs on GPUs alone
                raise
            raise TargetError(
                f"{error}; built for 'cuda -on=cpu', it runs on the processor"
            ) from None

    def _launch(
        self,
        kernel: cupy_driver.LoadedKernel,
        launch: GpuLaunch,
        arrays: Sequence[GpuArray],
        sizes: Mapping[str, int],
        stream: int,
    ) -> None:
        numbers = launch.at(sizes)
        if numbers is None:
            return
        device = kernel.device
        where = f"cuda:{device} ({cupy_driver.arch_of(device)})"
        check_launch(launch.symbol, numbers, kernel.usage, cupy_driver.limits_of(device), where)
        addresses = (np.uint64(arrays[number].address) for number in launch.arrays)
        given = [*addresses, *(sizes[name] for name in launch.sizes)]
        packed = packed_arguments(
            launch.symbol, kernel.usage.parameter_bytes, given, device, stream
        )
        kernel.launch(numbers.grid, numbers.block, numbers.shared_bytes, stream, packed)

    def _checked(
        self, arrays: Sequence[Any], device: int, stream: int
    ) -> tuple[list[GpuArray], dict[str, int]]:
        """Return the arguments in the GPU's memory, and the sizes that they determine."""
        signature = self.signature
        parameters = signature.parameters
        names = [p.name for p in parameters]
        if len(arrays) != len(names):
            raise ArgumentError(
                f"{signature.name} takes {len(names)} arrays ({', '.join(names)}), "
                f"got {len(arrays)}"
            )
        held = []
        for number, (array, param) in enumerate(zip(arrays, parameters, strict=True), start=1):
            label = f"{signature.name}: argument {number}, {param.name!r},"
            try:
                found = gpu_array(array, device, stream, strided=param.strides is not None)
            except ArgumentError as error:
                raise ArgumentError(f"{label} {error}") from None
            if found.address % self.module.alignment and found.size:
                raise ArgumentError(
                    f"{label} must begin at a multiple of {self.module.alignment} bytes, got "
                    f"address {found.address:#x}: a new array does"
                )
            held.append(found)
        values = self._checker.values([_as_checked(array) for array in held])
        return held, dict(zip(signature.sizes, values[len(held) :], strict=True))

    def _workspace(self, sizes: Mapping[str, int], device: int) -> list[GpuArray]:
        """Return new arrays for what kernels hand on; they live as long as kernels need them.

        CuPy gives freed memory to later work of the same stream only.
        """
        found = []
        for parameter in self.module.workspace:
            shape = tuple(extent_value(extent, sizes) for extent in parameter.shape)
            itemsize = dtypes.itemsize(parameter.dtype)
            memory = cupy_driver.empty(
                (int(np.prod(shape, dtype=np.int64)) * itemsize,), "uint8", device
            )
            address = int(memory.data.ptr)
            found.append(GpuArray(address, shape, parameter.dtype, device, True, memory))
        return found

    def _on(self, device: int) -> list[cupy_driver.LoadedKernel]:
        """Return the kernels in the memory of a GPU, loaded there once."""
        loaded = self._loaded.get(device)
        if loaded is None:
            there = cupy_driver.arch_of(device)
            arch = self.target.options.get("arch", there)
            if not cupy_driver.runs_on(arch, there):
                raise TargetError(
                    f"{self.signature.name} was built for {arch}, and cuda:{device} is {there}: "
                    f"build it for -arch={there}"
                )
            made = self.module.compiled(arch)
            loaded = self._loaded[device] = [
                cupy_driver.LoadedKernel(made.cubin, launch.symbol, device)
                for launch in made.launches
            ]
        return loaded


def _as_checked(array: GpuArray) -> Any:
    """Return an array as `ArgumentChecker` looks at NumPy's."""
    itemsize = dtypes.itemsize(array.dtype)
    strides = array.strides
    if strides is None:
        strides = tuple(math.prod(array.shape[i + 1 :]) for i in range(len(array.shape)))
    return SimpleNamespace(
        dtype=dtypes.numpy_dtype(array.dtype),
        shape=array.shape,
        ndim=len(array.shape),
        strides=tuple(stride * itemsize for stride in strides),
        nbytes=array.nbytes,
        flags=SimpleNamespace(c_contiguous=array.strides is None, writeable=array.writeable),
        __array_interface__={"data": (array.address, not array.writeable)},
    )
