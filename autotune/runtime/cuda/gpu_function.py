"""A function for GPUs: its text, its machine code, and calls with arrays in a GPU's memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from types import SimpleNamespace
from typing import Any

from autotune.errors import ArgumentError, TargetError
from autotune.ir import dtypes
from autotune.runtime.argument_checks import ArgumentChecker, wrong_number
from autotune.runtime.cuda import cupy_driver
from autotune.runtime.cuda.gpu_arrays import GpuArray, device_of, named_array, stream_beside
from autotune.runtime.cuda.gpu_program import ALIGNMENT, GpuProgram, GpuSource, arch_for
from autotune.runtime.cuda.loaded_program import LoadedProgram, check_arch
from autotune.runtime.device import DeviceArray, Host
from autotune.runtime.signature import ArrayParameter
from autotune.target import Target


@dataclass(frozen=True)
class GpuConstants:
    """The constant inputs of a function; see `autotune.lowering.lift_constants`."""

    #: All of them, in order.
    arrays: tuple[Host, ...]
    #: Those that the function itself takes.
    kept: tuple[int, ...]
    #: Computes from them the arrays that the function takes after these.
    prepare: GpuSource | None

    @property
    def count(self) -> int:
        """Number of arrays that the function takes in addition to the arguments of a call."""
        outputs = () if self.prepare is None else self.prepare.signature.parameters
        return len(self.kept) + sum(p.is_output for p in outputs)

    def on(self, device: int, arch: str) -> list[DeviceArray]:
        """Return these arrays in the memory of a GPU; waits until they are computed.

        Raises CompileError or LaunchError or TargetError as `GpuSource.compiled`, and if the launch
        fails.
        """
        arrays, made = cupy_driver.copied(self.arrays, device), list[DeviceArray]()
        with cupy_driver.cupy().cuda.Device(device) as used:
            if self.prepare is not None:
                made = [_new(p, device) for p in self.prepare.signature.parameters[len(arrays) :]]
                addresses = [int(array.data.ptr) for array in (*arrays, *made)]
                program = LoadedProgram(self.prepare.compiled(arch), device)
                program.bind(addresses, cupy_driver.stream_handle(None, device))()
            used.synchronize()
        return [*(arrays[number] for number in self.kept), *made]


def _new(parameter: ArrayParameter, device: int) -> DeviceArray:
    count = math.prod(parameter.fixed or ()) * dtypes.itemsize(parameter.dtype)
    return cupy_driver.empty((count,), "uint8", device)


class GPUFunction:
    """A function for GPUs, called with its arrays in order.

    Its text is there at once; it is compiled when it is first needed.

    Parameters
    ----------
    module : GpuSource
        Its text, and how its kernels are launched.
    target : Target
        Of kind "cuda"; without -arch it is compiled for the GPU whose arrays it is called with.
    constants : GpuConstants, optional
        What its last arrays are made from; calls take the others alone.

    Attributes
    ----------
    module, target
        As given.
    signature : Signature
        What calls take.
    """

    def __init__(
        self, module: GpuSource, target: Target, constants: GpuConstants | None = None
    ) -> None:
        self.module = module
        self.target = target
        own = module.signature.parameters
        own = own[: len(own) - (0 if constants is None else constants.count)]
        self.signature = replace(module.signature, parameters=own)
        self._constants = constants
        self._checker = ArgumentChecker(self.signature)
        self._loaded: dict[int, LoadedProgram] = {}
        self._prepared: dict[int, list[DeviceArray]] = {}

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

    def bind(self, *arrays: Any) -> Callable[[], None]:
        """Return a call without arguments, for calls in a row."""
        return partial(self, *arrays)

    def __call__(self, *arrays: Any) -> None:
        """Run on arrays of one GPU, inputs then outputs, without waiting for it.

        Arrays are of any library (DLPack or ``__cuda_array_interface__``), and are never copied.
        Kernels run on the current stream of PyTorch if the first array is a tensor, else of CuPy.

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
        self._require_gpu()  # report a missing GPU before mistakes in the arrays
        device = device_of(arrays[0]) if arrays else 0
        stream = cupy_driver.stream_handle(stream_beside(arrays), device)
        held, sizes = self._checked(arrays, device, stream)
        with cupy_driver.cupy().cuda.Device(device):
            program = self._on(device)
            own = [int(array.data.ptr) for array in self._prepared[device]]
            program.bind([*(array.address for array in held), *own], stream, sizes)()

    def _require_gpu(self) -> None:
        try:
            cupy_driver.device_count()
        except TargetError as error:
            if self.module.header:  # a kernel as text, which runs on GPUs alone
                raise
            raise TargetError(
                f"{error}; built for 'cuda -on=cpu', it runs on the processor"
            ) from None

    def _checked(
        self, arrays: Sequence[Any], device: int, stream: int
    ) -> tuple[list[GpuArray], dict[str, int]]:
        """Return the arguments in the GPU's memory, and the sizes that they determine."""
        signature, parameters = self.signature, self.signature.parameters
        if len(arrays) != len(parameters):
            raise wrong_number(signature.name, [p.name for p in parameters], len(arrays))
        held = []
        for number, (array, param) in enumerate(zip(arrays, parameters, strict=True), start=1):
            label = f"{signature.name}: argument {number}, {param.name!r},"
            found = named_array(label, array, device, stream, param.strides is not None)
            if found.address % ALIGNMENT and found.size:
                raise ArgumentError(
                    f"{label} must begin at a multiple of {ALIGNMENT} bytes, got "
                    f"address {found.address:#x}: a new array does"
                )
            held.append(found)
        values = self._checker.values([_as_checked(array) for array in held])
        return held, dict(zip(signature.sizes, values[len(held) :], strict=True))

    def _on(self, device: int) -> LoadedProgram:
        """Return the kernels in the memory of a GPU, compiled and loaded there once."""
        if device not in self._loaded:
            arch = self.target.options.get("arch", cupy_driver.arch_of(device))
            check_arch(self.signature.name, arch, device)
            given = self._constants
            self._prepared[device] = [] if given is None else given.on(device, arch)
            self._loaded[device] = LoadedProgram(self.module.compiled(arch), device)
        return self._loaded[device]


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
