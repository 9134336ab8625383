"""Devices by their old names, `cpu(0)` and `gpu(0)`; without a GPU the processor replaces it.

Kernels for the GPU are then built for "cuda -on=cpu", and one warning says so.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from autotune.errors import TargetError, UsageError
from autotune.runtime.cuda import cupy_driver
from autotune.target import Target
from records.caller_warnings import warn


@dataclass(frozen=True)
class Device:
    """A place for arrays.

    Attributes
    ----------
    device_type : {"cpu", "gpu"}
    device_id : int
        Number of the GPU; 0 for the processor.
    """

    device_type: str
    device_id: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.device_id, int) or self.device_id < 0:
            raise UsageError(
                f"{self.device_type}: expected the number of a device, from 0 on, got "
                f"{self.device_id!r}"
            )

    @property
    def exist(self) -> bool:
        """Whether this machine has it."""
        if self.device_type == "cpu":
            return True
        try:
            cupy_driver.checked_device(self.device_id)
        except TargetError:
            return False
        return True

    @property
    def gpu_number(self) -> int | None:
        """Number of the GPU whose memory its arrays are in; None for the processor's memory.

        Raises
        ------
        TargetError
            If there are GPUs, but not this one.
        """
        if self.device_type == "cpu" or without_gpu():
            return None
        return cupy_driver.checked_device(self.device_id)

    def sync(self) -> None:
        """Wait until all work on it has ended."""
        number = self.gpu_number
        if number is not None:
            cupy_driver.cupy().cuda.Device(number).synchronize()

    def __str__(self) -> str:
        return f"{self.device_type}({self.device_id})"


def cpu(dev_id: int = 0) -> Device:
    """Return the processor."""
    return Device("cpu", dev_id)


def gpu(dev_id: int = 0) -> Device:
    """Return a GPU by its number."""
    return Device("gpu", dev_id)


def device(kind: str, dev_id: int = 0) -> Device:
    """Return the device that a target such as "llvm" or "cuda" is for; also "cpu" and "gpu".

    Raises
    ------
    TargetError
        If it is not understood.
    """
    if kind in ("cpu", "gpu"):
        return Device(kind, dev_id)
    return Device("cpu" if Target.of(kind).on_cpu else "gpu", dev_id)


def chosen_device(caller: str, device: object, ctx: object) -> Device:
    """Return the device that a call names, as `device` or as `ctx`; by default the processor.

    Raises UsageError if it names two, or something else.
    """
    if device is not None and ctx is not None:
        raise UsageError(f"{caller}: device and ctx are two names of one argument; give one")
    given = device if ctx is None else ctx
    if given is None:
        return cpu()
    if not isinstance(given, Device):
        raise UsageError(f"{caller}: expected a device such as cpu(0), got {given!r}")
    return given


def without_gpu() -> bool:
    """Whether no GPU can be used; then a warning has said so, once for each reason."""
    try:
        cupy_driver.device_count()
    except TargetError as error:
        _warn_once(str(error))
        return True
    return False


@functools.cache
def _warn_once(reason: str) -> None:
    warn(f"{reason}; meanwhile the processor takes the place of gpu(0), by 'cuda -on=cpu'")
