"""Measures how fast and how noisy a device is, by fixed reference kernels in a separate process.

``python -m autotune.fleet.peers.reference_kernel TARGET`` prints the result as one line of JSON.
The process is separate because only one process at a time may own a GPU.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from autotune.errors import AutotuneError
from autotune.system.environment_variables import own_environment
from autotune.system.words import one_line
from autotune.target import Target
from records import relative_spread

if TYPE_CHECKING:
    from autotune.runtime.device import Device

TIMEOUT_S = 120.0
ROUNDS = 25  # Times that are taken of each kernel.
LOOP = 4  # Calls of a GPU's loop.
COPIED_BYTES = float(1 << 26)


@dataclass(frozen=True)
class ReferenceTimes:
    """What the kernels took on one device, in seconds."""

    multiply_s: float  # Median of multiply-adds in registers, with all threads.
    copy_s: float  # Median of a copy of 64 MiB, those read and those written together.
    spread: float  # Relative spread of the noisier of the two.


def time_reference(target: str, timeout_s: float = TIMEOUT_S) -> ReferenceTimes:
    """Time the reference kernels on the device that a target names here.

    AutotuneError if they fail.
    """
    command = [sys.executable, "-P", "-m", __name__, target]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            env=own_environment(),
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise AutotuneError(f"the reference kernel took longer than {timeout_s:g} s") from None
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise AutotuneError(one_line(f"the reference kernel failed: {last}"))
    return ReferenceTimes(**json.loads(lines[-1]))


def timed_here(device: Device) -> ReferenceTimes:
    """Time the reference kernels on a device that this process owns."""
    multiply, _ = device.multiply_adds("float32")
    copy, _ = device.copies(COPIED_BYTES)[-1]
    multiplied, copied = _times(device, multiply), _times(device, copy)
    spreads = (relative_spread(multiplied), relative_spread(copied))
    return ReferenceTimes(
        statistics.median(multiplied),
        statistics.median(copied),
        max(spread or 0.0 for spread in spreads),
    )


def _times(device: Device, call: Callable[[], object]) -> list[float]:
    """Return seconds of one call, by the device's own clock if it has one."""
    device.new_kernel()
    call()
    device.wait()
    loop = device.loop
    if loop is not None:
        return [loop(call, LOOP) / LOOP for _ in range(ROUNDS)]
    found = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        call()
        found.append(time.perf_counter() - begin)
    return found


def main(target: str) -> None:
    """Print the times of this machine's device."""
    from autotune.runtime.backends import backend_of  # a runner does not need it

    parsed = Target.of(target)
    found = timed_here(backend_of(parsed).take_device(parsed))
    print(json.dumps(asdict(found)))


if __name__ == "__main__":
    main(sys.argv[1])
