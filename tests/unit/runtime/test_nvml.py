"""What is known of GPUs by NVML, and what is said where it is missing."""

import sys
from types import SimpleNamespace

import pytest

from autotune.runtime.cuda.nvml import clock_reader, driver_release

BUS = "0000:3b:00.0"


class NVMLError(Exception):
    pass


def stand_in(**changed: object) -> SimpleNamespace:
    """Return a module like pynvml, of a machine whose memory clock is not told."""

    def clock(handle: str, kind: int) -> int:
        assert handle == BUS
        if kind == 2:
            raise NVMLError("Not Supported")
        return 1980

    parts = {
        "NVMLError": NVMLError,
        "NVML_CLOCK_SM": 1,
        "NVML_CLOCK_MEM": 2,
        "nvmlInit": lambda: None,
        "nvmlDeviceGetHandleByPciBusId": lambda bus: bus,
        "nvmlDeviceGetClockInfo": clock,
        "nvmlSystemGetDriverVersion": lambda: "580.65.06",
    }
    return SimpleNamespace(**{**parts, **changed})


def test_clocks_that_a_gpu_tells_are_read_and_others_left_out(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", stand_in())
    read, problem = clock_reader(BUS)
    assert (read(), problem) == ({"sm_mhz": 1980}, None)
    assert driver_release() == "580.65.06"


def no_driver() -> None:
    raise NVMLError("NVML Shared\nLibrary Not Found")


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (None, "nvidia-ml-py is not installed"),
        (stand_in(nvmlInit=no_driver), "NVML Shared Library Not Found"),
    ],
)
def test_without_nvml_one_line_says_why_the_clocks_are_not_known(module, reason, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", module)
    read, problem = clock_reader(BUS)
    assert problem == f"the GPU's clocks are not known: {reason}"
    assert read() is None
    assert driver_release() is None
