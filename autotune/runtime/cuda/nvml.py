"""Clocks and driver of GPUs, asked of NVIDIA's management library, which comes with the driver.

They are only read. Where the library is missing or does not answer, nothing is known.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

_KINDS = {"sm_mhz": 1, "memory_mhz": 2}
"""What is told, and NVML's numbers for it (nvmlClockType_t)."""


def clock_reader(pci_bus_id: str) -> tuple[Callable[[], dict[str, int] | None], str | None]:
    """Return what reads the present clocks of a GPU, and why it cannot, if it cannot.

    Parameters
    ----------
    pci_bus_id : str
        Such as "0000:3b:00.0".

    Returns
    -------
    callable
        Returns "sm_mhz" and "memory_mhz", or None.
    str or None
        One line.
    """
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as error:
        return _nothing, f"the GPU's clocks are not known: {' '.join(str(error).split())}"
    handle = ctypes.c_void_p()
    status = library.nvmlInit_v2() or library.nvmlDeviceGetHandleByPciBusId_v2(
        pci_bus_id.encode(), ctypes.byref(handle)
    )
    if status:
        return _nothing, f"the GPU's clocks are not known: NVML answers error {status}"

    def read() -> dict[str, int] | None:
        found = {}
        for name, kind in _KINDS.items():
            clock = ctypes.c_uint()
            if library.nvmlDeviceGetClockInfo(handle, kind, ctypes.byref(clock)) == 0:
                found[name] = clock.value
        return found or None

    return read, None


def driver_release() -> str | None:
    """Return the release of the driver, such as "580.65.06"; None if it is not to be had."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    text = ctypes.create_string_buffer(80)
    if library.nvmlInit_v2() or library.nvmlSystemGetDriverVersion(text, len(text)):
        return None
    return text.value.decode(errors="replace")


def _nothing() -> None:
    return None
