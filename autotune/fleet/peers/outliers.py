"""Finds outliers among devices of one kind: devices that are slower or noisier than the others.

In: times of the reference kernels, or of the default configuration, per device. Out: the devices to
set aside, and why.

The measures are checked one after the other. Each device is compared with the median of the others
that are left. The device with the least value is never set aside, so at least one is left. Of an
even number of others the upper median is used, so a single fast device sets no other one aside.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from autotune.fleet.peers.reference_kernel import ReferenceTimes
from autotune.measure.result import MeasureResult

# Largest share of its peers' time by which a device may be slower, in either of the reference
# kernels and with the default configuration.
SLOWER = 0.1

# By how much the relative spread of a device's times may exceed that of its peers.
NOISIER = 0.1


def set_aside(times: Mapping[str, ReferenceTimes]) -> dict[str, str]:
    """Return the devices whose times of the reference kernels are outliers, and why.

    times: times of the reference kernels, by the name of the device.
    """
    found = _noisier({name: own.spread for name, own in times.items()}, "its times")
    for what, field in (("multiplies and adds", "multiply_s"), ("copies", "copy_s")):
        rest = {name: getattr(own, field) for name, own in times.items() if name not in found}
        found |= _slower(rest, f"it {what}", "its peers")
    return found


def set_aside_by_default(results: Mapping[str, Sequence[MeasureResult]]) -> dict[str, str]:
    """Return the devices whose results of the default are outliers, and why.

    The best result of each device counts, because a disturbance makes results slower and noisier.
    If the default works on no device, none is an outlier.

    results: of the default configuration, by the name of the device; at least one of each.
    """
    worked = {name: [each for each in own if each.ok] for name, own in results.items()}
    found = {}
    if any(worked.values()):
        for name in (name for name, own in worked.items() if not own):
            error = results[name][-1].error
            assert error is not None
            found[name] = f"the default fails there ({error.code}: {error.message})"
    rest = {name: own for name, own in worked.items() if own}
    spreads = {name: min(each.spread or 0.0 for each in own) for name, own in rest.items()}
    found |= _noisier(spreads, "times of the default")
    costs_s = {
        name: min(each.cost_s or math.inf for each in own)
        for name, own in rest.items()
        if name not in found
    }
    return found | _slower(costs_s, "the default is", "on its peers")


def _slower(seconds: Mapping[str, float], what: str, than: str) -> dict[str, str]:
    found = {}
    for name, others in _others(seconds).items():
        slower = seconds[name] / statistics.median_high(others) - 1.0
        if slower > SLOWER:
            found[name] = f"{what} {slower:.0%} slower than {than}, {SLOWER:.0%} are allowed"
    return found


def _noisier(spreads: Mapping[str, float], what: str) -> dict[str, str]:
    found = {}
    for name, others in _others(spreads).items():
        noisier = spreads[name] - statistics.median_high(others)
        if noisier > NOISIER:
            found[name] = (
                f"{what} spread by {spreads[name]:.0%}, {noisier:.0%} more than those of its "
                f"peers; {NOISIER:.0%} are allowed"
            )
    return found


def _others(values: Mapping[str, float]) -> dict[str, list[float]]:
    """Return for each device the values of the others, if there are any."""
    if len(values) < 2:
        return {}
    return {name: [values[other] for other in values if other != name] for name in values}
