"""The peak performance of a machine, and the least time that a workload takes on it (roofline).

All figures are measured. Data sheets do not hold for virtual machines or under power limits.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from autotune.ir import dtypes
from autotune.runtime.device import Call, Device

# Time for all measurements together; compiling their kernels, the first time, comes on top.
SECONDS = 0.5

_ROUNDS = 3
_LOOP_S = 2e-3


@dataclass(frozen=True)
class Ceiling:
    """The peak performance of a machine."""

    # Operations per second of multiply-adds in registers, with all threads, by element type; a
    # multiply-add counts as two. Half floats are computed as float32 and have its peak; integers
    # have none.
    peak_flops: Mapping[str, float]
    # Bytes per second, those read and those written, of the fastest of several ways to copy.
    copy_bytes_s: float
    # Seconds that the vendor's library takes for the very same work; None if there is none that
    # does it, or it was not tried. It is not a ceiling, but a time to compare with.
    library_s: float | None = None

    def of_work(self, flops: float | None, touched_bytes: float, dtype: str) -> float:
        """Return the least seconds for some work: the roofline of Williams, Waterman, Patterson.

        flops: operations; None if they do not count.
        touched_bytes: bytes of its inputs and outputs, each counted once.
        dtype: type of its elements; for one without a peak only the bytes count.
        """
        moving_s = touched_bytes / self.copy_bytes_s
        peak = self.peak_flops.get(dtype)
        return moving_s if flops is None or peak is None else max(moving_s, flops / peak)

    def or_higher(self, other: Ceiling) -> Ceiling:
        """Return the larger figures of two measurements: disturbances make them smaller."""
        peaks = {**self.peak_flops, **other.peak_flops}
        library = [time_s for time_s in (self.library_s, other.library_s) if time_s is not None]
        return Ceiling(
            {kind: max(peak, self.peak_flops.get(kind, 0.0)) for kind, peak in peaks.items()},
            max(self.copy_bytes_s, other.copy_bytes_s),
            min(library, default=None),
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Ceiling:
        """Rebuild from the result of `to_json`."""
        return cls(dict(data["peak_flops"]), data["copy_bytes_s"], data.get("library_s"))


def measure_ceiling(
    device: Device,
    kinds: Sequence[str] = ("float32", "float64"),
    touched_bytes: float | None = None,
    library: Call | None = None,
    seconds: float = SECONDS,
) -> Ceiling:
    """Measure the peak performance of a device, with nothing else running on it.

    kinds: element types whose peak is wanted; those that have none are left out.
    touched_bytes: bytes that the work to be judged reads and writes: as many are copied, so that
        work whose data stay in a cache is compared with that cache. None: more than any cache
        holds.
    library: starts the vendor's kernel for the same work.
    seconds: time to spend on running.
    """
    wide = sorted({dtypes.accumulator(kind) for kind in kinds if dtypes.is_float(kind)})
    ways = device.copies(touched_bytes)
    share_s = seconds / (len(wide) + len(ways) + (library is not None))
    peaks = {}
    for kind in wide:
        call, count = device.multiply_adds(kind)
        call()
        peaks[kind] = 2.0 * count / fastest(call, share_s, device=device)
    return Ceiling(
        {kind: peaks[dtypes.accumulator(kind)] for kind in kinds if dtypes.is_float(kind)},
        max(count / fastest(call, share_s, device=device) for call, count in ways),
        None if library is None else fastest(library, share_s, device=device),
    )


def fastest(
    call: Call,
    seconds: float,
    clock: Callable[[], float] = time.perf_counter,
    device: Device | None = None,
) -> float:
    """Return the seconds of the fastest of the calls that fit into a time, of three at least.

    The fastest, since slow calls tell of neighbours and not of the machine. A device with a clock
    of its own times loops of some calls.
    """
    loop = None if device is None else device.loop
    number = 1
    if device is not None and loop is not None:
        device.new_kernel()
        number = max(1, round(min(_LOOP_S, seconds) / loop(call, 1)))
    end = clock() + seconds
    least, rounds = math.inf, 0
    while rounds < _ROUNDS or clock() < end:
        begin = clock()
        if loop is None:
            call()
            least = min(least, clock() - begin)
        else:
            least = min(least, loop(call, number) / number)
        rounds += 1
    return max(least, 1e-9)
