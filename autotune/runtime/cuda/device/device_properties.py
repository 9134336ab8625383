"""Reads the properties of a GPU in a child process.

The child is ``python -m autotune.runtime.cuda.device.device_properties TARGET``.
The tuning process itself never opens a device. With a CUDA context it could not fork workers that
use the device, would hold some of its memory, and could be ended by an error of the device.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from autotune.errors import AutotuneError, TargetError, error_text
from autotune.system.environment_variables import own_environment
from autotune.target import Target

# Seconds that the child may take: drivers that start up, and cold imports from a slow disk.
TIMEOUT_S = 120.0


def gpu_facts(target: Target) -> dict[str, Any]:
    """Describe the GPU that candidates for a target run on; asked once in this process.

    `target`: of kind "cuda", without -on=cpu.

    The result has "device": as `autotune.runtime.cuda.cupy_driver.facts_of`. "arch": what
    candidates are compiled for. "versions": those of "cuda_driver", "cupy", "nvrtc".

    Raises TargetError if the GPU cannot be used, or does not run what the target asks for: one
    line.
    """
    answer: dict[str, Any] = _asked(str(target))
    if "refused" in answer:
        refused = answer["refused"]
        if "no driver" in refused:
            refused += "; with -on=cpu in the target, schedules run on the processor"
        raise TargetError(f"target {str(target)!r} cannot be measured here: {refused}")
    return answer


@functools.cache
def _asked(target: str) -> dict[str, Any]:
    """Return the output of the child process, or the way it ended if it printed nothing."""
    words = [sys.executable, "-P", "-m", "autotune.runtime.cuda.device.device_properties", target]
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=own_environment(),
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"refused": f"the driver does not answer within {TIMEOUT_S:g} s"}
    lines = done.stdout.decode(errors="replace").splitlines()
    try:
        answer = json.loads(lines[-1] if lines else "")
    except ValueError:
        said = done.stderr.decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(said) if line.strip()), "")
        how = f"exited with {done.returncode}" if done.returncode >= 0 else "crashed"
        return {"refused": f"asking the driver {how}{f' ({last})' if last else ''}"}
    return dict(answer)


# -- in the child --------------------------------------------------------------------------------


def main(words: Sequence[str]) -> None:
    """Print the properties as a line of JSON."""
    try:
        answer = _facts(Target.parse(words[0]))
    except (AutotuneError, RuntimeError) as error:
        answer = {"refused": " ".join(error_text(error).split())}
    print(json.dumps(answer), flush=True)


def _facts(target: Target) -> dict[str, Any]:
    from autotune.runtime.cuda import cupy_driver, nvrtc

    device = cupy_driver.facts_of(target.device)
    there = device["arch"]
    arch = target.options.get("arch", there)
    if not cupy_driver.runs_on(arch, there):
        raise TargetError(
            f"cuda:{target.device} ({device['name']}) is {there}, which does not run {arch}: "
            f"use -arch={there}, or none"
        )
    nvrtc.check_arch(arch)
    versions = {
        "cuda_driver": ".".join(map(str, cupy_driver.driver_version() or ())),
        "cupy": str(cupy_driver.cupy().__version__),
        "nvrtc": ".".join(map(str, nvrtc.version())),
    }
    return {"device": device, "arch": arch, "versions": versions}


if __name__ == "__main__":
    main(sys.argv[1:])
