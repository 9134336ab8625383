"""Checks the limits of a GPU kernel launch: sizes, registers, memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from autotune.errors import LaunchError
from autotune.runtime.cuda.nvrtc import Usage
from autotune.target import GpuLimits, Target

Extents = tuple[int, int, int]

# Registers are given to a warp in multiples of this number, and to four warps at a time.
_REGISTER_UNIT = 256
_WARP_UNIT = 4


@dataclass(frozen=True)
class LaunchSizes:
    """How a kernel is launched."""

    #: Blocks, and threads of a block, along x, y and z.
    grid: Extents
    block: Extents
    #: Dynamic shared memory of a block.
    shared_bytes: int = 0

    @classmethod
    def of(cls, kernel: str, grid: Any, block: Any, shared_bytes: Any = 0) -> LaunchSizes:
        """Read sizes: a number, or up to three of them.

        Raises LaunchError if they are something else.
        """
        if not _is_count(shared_bytes) or shared_bytes < 0:
            raise LaunchError(
                f"{kernel}: shared_memory must be a number of bytes >= 0, got {shared_bytes!r}"
            )
        return cls(
            _extents(kernel, "grid", grid), _extents(kernel, "block", block), int(shared_bytes)
        )


def limits_of_arch(arch: str) -> GpuLimits:
    """Return the limits of a launch on an architecture, such as "sm_90"."""
    limits = Target("cuda", {"arch": arch}).gpu
    assert limits is not None
    return limits


def _is_count(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)


def _extents(kernel: str, what: str, given: Any) -> Extents:
    extents = tuple(given) if isinstance(given, Sequence) else (given,)
    good = all(_is_count(extent) and extent >= 1 for extent in extents)
    if not 1 <= len(extents) <= 3 or not good:
        raise LaunchError(f"{kernel}: {what} must be 1 to 3 numbers >= 1, got {given!r}")
    x, y, z = (*map(int, extents), 1, 1)[:3]
    return x, y, z


def check_launch(
    kernel: str,
    sizes: LaunchSizes,
    usage: Usage,
    limits: GpuLimits,
    where: str,
) -> None:
    """Raise LaunchError, with limit and value, if a launch is impossible.

    `kernel`: its name.
    `usage`: registers and memory of each thread and block.
    `where`: the architecture of the limits, such as "sm_90".
    """
    threads = math.prod(sizes.block)
    _at_most(kernel, f"a block of {_product(sizes.block)} threads", threads, limits.threads, where)
    for axis, extent, limit in zip("xyz", sizes.block, limits.block, strict=True):
        _at_most(kernel, f"a block of {extent} threads along {axis}", extent, limit, where)
    for axis, extent, limit in zip("xyz", sizes.grid, limits.grid, strict=True):
        _at_most(kernel, f"a grid of {extent} blocks along {axis}", extent, limit, where)
    registers = block_registers(usage.registers, threads, limits.warp)
    what = f"a block of {threads} threads of {usage.registers} registers, {registers} together,"
    _at_most(kernel, what, registers, limits.block_registers, where)
    if usage.max_threads is not None:
        what = f"a block of {_product(sizes.block)} threads"
        _at_most(kernel, what, threads, usage.max_threads, "its __launch_bounds__")
    shared = sizes.shared_bytes + usage.shared_bytes
    what = f"{shared} bytes of shared memory ({usage.shared_bytes} declared, {sizes.shared_bytes} "
    _at_most(kernel, what + "dynamic)", shared, limits.shared_bytes, where)


def block_registers(registers: int, threads: int, warp: int = 32) -> int:
    """Return the registers that a block takes: whole warps, in units of the hardware.

    Source: CUDA's occupancy calculator (cuda_occupancy.h), for compute capability 7.0 and later.
    """
    each = -(-registers * warp // _REGISTER_UNIT) * _REGISTER_UNIT
    warps = -(-threads // warp)
    return -(-warps // _WARP_UNIT) * _WARP_UNIT * each


def _at_most(kernel: str, what: str, value: int, limit: int, where: str) -> None:
    if value > limit:
        raise LaunchError(f"{kernel}: {what} is too much: {where} allows {limit}")


def _product(extents: Extents) -> str:
    shown = " x ".join(str(extent) for extent in extents)
    return f"{math.prod(extents)} ({shown})" if extents[1:] != (1, 1) else str(extents[0])
