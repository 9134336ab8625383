"""Which devices measure like their peers: those that are slower or noisier are set aside."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from operator import attrgetter

from autotune.fleet.reference_kernel import ReferenceTimes

# By what share of its peers' time a device may be slower, in either of the reference kernels.
SLOWER = 0.1

# By how much the relative spread of a device's times may exceed that of its peers.
NOISIER = 0.1


def set_aside(times: Mapping[str, ReferenceTimes]) -> dict[str, str]:
    """Return the devices that do not measure like their peers, and why, in words.

    Each is held against the median of the others; at least one device is left.

    times: what the reference kernels took, by the name of the device.
    """
    found = {}
    for name, own in times.items():
        others = [each for other, each in times.items() if other != name]
        why = _why_apart(own, others) if others else ""
        if why:
            found[name] = why
    return found if len(found) < len(times) else {}


def _why_apart(own: ReferenceTimes, others: list[ReferenceTimes]) -> str:
    for what, field in (("multiplies and adds", "multiply_s"), ("copies", "copy_s")):
        read = attrgetter(field)
        slower = read(own) / statistics.median(map(read, others)) - 1.0
        if slower > SLOWER:
            return f"it {what} {slower:.0%} slower than its peers, {SLOWER:.0%} are allowed"
    noisier = own.spread - statistics.median(each.spread for each in others)
    if noisier > NOISIER:
        return (
            f"its times spread by {own.spread:.0%}, {noisier:.0%} more than those of its peers; "
            f"{NOISIER:.0%} are allowed"
        )
    return ""
