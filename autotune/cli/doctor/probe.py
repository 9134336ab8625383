"""Probes libraries and the GPU's driver in a child process, because each may crash or hang.

``python -m autotune.cli.doctor.probe STEP ...`` takes the steps in their order and prints a line
of JSON for each: what was found, or the error.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from autotune.system.processes import die_by_signal

# Seconds that all steps of one process may take: enough for cold imports from a slow disk.
TIMEOUT_S = 30.0


@dataclass(frozen=True)
class ProbeResult:
    """The result of a step, or why it failed."""

    found: dict[str, Any] = field(default_factory=dict)  # Empty if it failed.
    error: str | None = None  # One line; None if it succeeded.


def probe_libraries(steps: Sequence[str], timeout_s: float = TIMEOUT_S) -> dict[str, ProbeResult]:
    """Return the outcome of each step: "import MODULE", "llvm", "driver", "nvrtc" or "cupy".

    A step that ends its process counts as failed; another process does the steps after it.
    """
    outcomes: dict[str, ProbeResult] = {}
    left = list(steps)
    while left:
        lines, end = _run(left, timeout_s)
        for step, line in zip(left, lines, strict=False):
            outcomes[step] = ProbeResult(**json.loads(line))
        left = left[len(lines) :]
        if left:
            outcomes[left[0]] = ProbeResult(error=end)
            left = left[1:]
    return outcomes


def _run(steps: Sequence[str], timeout_s: float) -> tuple[list[str], str]:
    """Return the lines that a process printed, and how it ended."""
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "autotune.cli.doctor.probe", *steps],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            timeout=timeout_s,
            check=False,
        )
        output, status = done.stdout, done.returncode
        end = f"killed by {signal.Signals(-status).name}" if status < 0 else f"exited with {status}"
    except subprocess.TimeoutExpired as late:
        output, end = late.stdout or b"", f"did not come back within {timeout_s:g} s"
    whole, _, _ = output.decode(errors="replace").rpartition("\n")
    return whole.splitlines(), end


# -- in the child --------------------------------------------------------------------------------


def main(steps: Sequence[str]) -> None:
    """Take the steps and print a line for each; the output of libraries is discarded."""
    die_by_signal()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for step in steps:
        name, _, argument = step.partition(" ")
        try:
            answer: dict[str, Any] = {"found": _STEPS[name](*filter(None, [argument]))}
        except Exception as error:
            text = " ".join(f"{type(error).__name__}: {error}".split())
            answer = {"error": text[:300]}
        print(json.dumps(answer), file=answers, flush=True)


def _import(module: str) -> dict[str, Any]:
    return {"version": getattr(importlib.import_module(module), "__version__", None)}


def _llvm() -> dict[str, Any]:
    """Load the compiler and ask it for this processor."""
    from autotune.runtime.cpu.llvm_compiler import cpu_and_features, llvm_version

    return {"version": llvm_version(), "cpu": cpu_and_features("native")[0]}


def _driver() -> dict[str, Any]:
    """Ask the CUDA driver for its version and its devices; it needs no other library."""
    cuda = ctypes.CDLL("libcuda.so.1")
    _check(cuda.cuInit(0), "cuInit")
    version, count = ctypes.c_int(), ctypes.c_int()
    _check(cuda.cuDriverGetVersion(ctypes.byref(version)), "cuDriverGetVersion")
    _check(cuda.cuDeviceGetCount(ctypes.byref(count)), "cuDeviceGetCount")
    major, rest = divmod(version.value, 1000)
    return {
        "version": f"{major}.{rest // 10}",
        "devices": [_device(cuda, number) for number in range(count.value)],
    }


def _device(cuda: ctypes.CDLL, number: int) -> dict[str, Any]:
    device, name, size = ctypes.c_int(), ctypes.create_string_buffer(256), ctypes.c_size_t()
    _check(cuda.cuDeviceGet(ctypes.byref(device), number), "cuDeviceGet")
    _check(cuda.cuDeviceGetName(name, len(name), device), "cuDeviceGetName")
    _check(cuda.cuDeviceTotalMem_v2(ctypes.byref(size), device), "cuDeviceTotalMem")
    capability = []
    for attribute in (75, 76):  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR
        value = ctypes.c_int()
        _check(cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, device), "attributes")
        capability.append(str(value.value))
    arch = f"sm_{''.join(capability)}"
    return {"name": name.value.decode(errors="replace"), "arch": arch, "bytes": size.value}


def _check(status: int, call: str) -> None:
    if status:
        raise OSError(f"{call} fails with CUDA error {status}")


def _nvrtc() -> dict[str, Any]:
    """Load NVIDIA's compiler, which needs neither a driver nor CuPy, and let it compile."""
    from autotune.runtime.cuda import nvrtc

    source = 'extern "C" __global__ void one(int* a) { a[threadIdx.x] = 1; }'
    nvrtc.compile_cubin(source, nvrtc.architectures()[-1])
    return {"version": ".".join(map(str, nvrtc.version()))}


def _cupy() -> dict[str, Any]:
    """Let the GPU compute something and copy it back."""
    from autotune.runtime.cuda.cupy_driver import cupy

    if int(cupy().arange(5).sum()) != 10:
        raise ArithmeticError("the GPU computes a wrong sum")
    return {}


_STEPS: dict[str, Callable[..., dict[str, Any]]] = {
    "import": _import,
    "llvm": _llvm,
    "driver": _driver,
    "nvrtc": _nvrtc,
    "cupy": _cupy,
}

if __name__ == "__main__":
    main(sys.argv[1:])
