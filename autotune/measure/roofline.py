"""The peak performance of a machine, and the least time that a workload takes on it (roofline).

All figures are measured. Data sheets do not hold for virtual machines or under power limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Ceiling:
    """What a machine can do at best.

    Attributes
    ----------
    peak_flops : mapping of str to float
        Operations per second of multiply-adds in registers, with all threads, by element type; a
        multiply-add counts as two. Half floats are computed as float32 and have its peak; integers
        have none.
    copy_bytes_s : float
        Bytes per second, those read and those written, of the fastest of several ways to copy.
    library_s : float or None
        Seconds that the vendor's library takes for the very same work; None if there is none that
        does it, or it was not tried. It is not a ceiling, but a time to compare with.
    """

    peak_flops: Mapping[str, float]
    copy_bytes_s: float
    library_s: float | None = None

    def of_work(self, flops: float | None, touched_bytes: float, dtype: str) -> float:
        """Return the least seconds for some work: the roofline of Williams, Waterman, Patterson.

        Parameters
        ----------
        flops : float or None
            Operations; None if they do not count.
        touched_bytes : float
            Bytes of its inputs and outputs, each counted once.
        dtype : str
            Type of its elements; for one without a peak only the bytes count.
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
        """Rebuild from what `to_json` returned."""
        return cls(dict(data["peak_flops"]), data["copy_bytes_s"], data.get("library_s"))
