"""Kernels of a function for GPUs, as text and compiled, with all it takes to launch them.

Plain data: one process compiles, which needs no GPU, and another runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from autotune.errors import TargetError
from autotune.runtime.cuda import cupy_driver
from autotune.runtime.cuda.launch_limits import LaunchSizes, check_launch, limits_of_arch
from autotune.runtime.cuda.nvrtc import Cubin, compile_cubin
from autotune.runtime.object_cache import default_cache
from autotune.runtime.signature import ArrayParameter, Extent, Signature, extent_value
from autotune.target import Target

Extents = tuple[Extent, Extent, Extent]

#: The address of every array is a multiple of this number of bytes.
ALIGNMENT = 16


@dataclass(frozen=True)
class GpuLaunch:
    """How one kernel is launched."""

    symbol: str
    #: Blocks, and threads of a block; they may depend on sizes.
    grid: Extents
    block: Extents
    #: Dynamic shared memory.
    shared_bytes: int
    #: Its arguments: of pointers the numbers of the function's parameters, then of its workspace;
    #: numbers by value, each after its type.
    arguments: tuple[int | tuple[str, int | float], ...]
    #: What follows them, each as 64 bits.
    sizes: tuple[str, ...] = ()

    def at(self, sizes: Mapping[str, int]) -> LaunchSizes | None:
        """Return the numbers for given sizes; None if there are no blocks, so nothing to do."""
        grid, block = ([extent_value(e, sizes) for e in es] for es in (self.grid, self.block))
        if 0 in grid:
            return None
        return LaunchSizes.of(self.symbol, grid, block, self.shared_bytes)


@dataclass(frozen=True)
class GpuProgram:
    """A function compiled for one architecture."""

    #: What it takes.
    signature: Signature
    #: Its kernels' code, and what each takes of the device.
    cubin: Cubin
    #: In the order in which they run.
    launches: tuple[GpuLaunch, ...]
    #: Arrays that kernels hand on; who runs it provides them.
    workspace: tuple[ArrayParameter, ...] = ()
    #: Arrays that its kernels change in place, and inputs that they may overwrite, as `CallForm`.
    copied: tuple[tuple[int, int], ...] = ()
    scratch: tuple[int, ...] = ()

    def check(self) -> None:
        """Check its launches against the architecture's limits, as far as they are known.

        Raises LaunchError with the limit and the value.
        """
        limits = limits_of_arch(self.cubin.arch)
        for launch in self.launches:
            if all(isinstance(e, int) for e in (*launch.grid, *launch.block)):
                usage, sizes = self.cubin.kernels[launch.symbol], launch.at({})
                if sizes is not None:
                    check_launch(launch.symbol, sizes, usage, limits, self.cubin.arch)

    @property
    def resources(self) -> list[dict[str, Any]]:
        """Registers and memory of each kernel, as plain data."""
        return [
            {
                "name": launch.symbol,
                "registers": usage.registers,
                "spill_store_bytes": usage.spill_store_bytes,
                "spill_load_bytes": usage.spill_load_bytes,
                "stack_bytes": usage.stack_bytes,
                "shared_bytes": usage.shared_bytes + launch.shared_bytes,
            }
            for launch in self.launches
            for usage in [self.cubin.kernels[launch.symbol]]
        ]


@dataclass(frozen=True)
class GpuSource:
    """A function as CUDA C++, not compiled yet."""

    #: What it takes.
    signature: Signature
    #: Its kernels.
    text: str = field(repr=False)
    #: In the order in which they run, with names in place of symbols.
    launches: tuple[GpuLaunch, ...]
    #: Arrays that kernels hand on; who runs it provides them.
    workspace: tuple[ArrayParameter, ...] = ()
    #: What stands before the text.
    header: str = field(default="", repr=False)
    #: Options of the compiler.
    flags: tuple[str, ...] = ()
    #: Arrays that its kernels change in place, and inputs that they may overwrite, as `CallForm`.
    copied: tuple[tuple[int, int], ...] = ()
    scratch: tuple[int, ...] = ()

    def compiled(self, arch: str) -> GpuProgram:
        """Return it compiled for an architecture, from the cache if it is there; needs no GPU.

        Raises CompileError if the compiler refuses the text. Raises LaunchError if the architecture
        does not allow a launch. Raises TargetError if there is no compiler, or it does not know the
        architecture.
        """
        names = [launch.symbol for launch in self.launches]
        text = self.header + self.text
        cubin = compile_cubin(text, arch, self.flags, names, default_cache())
        launches = tuple(replace(each, symbol=cubin.symbols[each.symbol]) for each in self.launches)
        made = GpuProgram(
            self.signature, cubin, launches, self.workspace, self.copied, self.scratch
        )
        made.check()
        return made


def arch_for(target: Target) -> str:
    """Return the architecture that a target names, or else that of the first GPU.

    Raises TargetError if it names none and there is no such GPU.
    """
    if "arch" in target.options:
        return target.options["arch"]
    try:
        return cupy_driver.arch_of(target.device)
    except TargetError as error:
        raise TargetError(
            f"target {str(target)!r} does not say what to compile for, as -arch=sm_90 would, "
            f"and {error}"
        ) from None
