"""Clocks and driver of GPUs, asked of NVML (nvidia-ml-py), whose library comes with the driver.

They are only read. Where NVML is missing or does not answer, nothing is known.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any


def clock_reader(pci_bus_id: str) -> tuple[Callable[[], dict[str, int] | None], str | None]:
    """Return a reader of the present clocks of a GPU, and the reason if it cannot read them.

    `pci_bus_id`: such as "0000:3b:00.0".

    The first one returns "sm_mhz" and "memory_mhz", or None; the second is one line.
    """
    try:
        nvml = _started()
        handle = nvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id)
    except ImportError:
        return lambda: None, "the GPU's clocks are not known: nvidia-ml-py is not installed"
    except Exception as error:  # the type of NVML's errors comes with the module
        return lambda: None, f"the GPU's clocks are not known: {' '.join(str(error).split())}"

    def read() -> dict[str, int] | None:
        found = {}
        for name, kind in (("sm_mhz", nvml.NVML_CLOCK_SM), ("memory_mhz", nvml.NVML_CLOCK_MEM)):
            with contextlib.suppress(nvml.NVMLError):
                found[name] = int(nvml.nvmlDeviceGetClockInfo(handle, kind))
        return found or None

    return read, None


def driver_release() -> str | None:
    """Return the release of the driver, such as "580.65.06"; None if it is not to be had."""
    try:
        return str(_started().nvmlSystemGetDriverVersion())
    except Exception:  # as in `clock_reader`
        return None


def _started() -> Any:
    import pynvml

    pynvml.nvmlInit()
    return pynvml
