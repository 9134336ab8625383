"""What a run is to reach: a time, a speed, or a share of what the machine can do."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autotune.errors import UsageError

if TYPE_CHECKING:  # with NumPy, which `autotune run --help` does without
    from autotune.measure.roofline import Ceiling

EXAMPLES = "'1.2 ms', '200 GFLOPS', '50 GB/s', '0.9 of copy', '0.8 of peak' or '0.8 of ceiling'"

_TIMES = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_FLOPS = {"GFLOPS": 1e9, "TFLOPS": 1e12}
_BYTES = {"GB/s": 1e9, "TB/s": 1e12}
_SHARES = ("copy", "peak", "ceiling")
_UNITS = {unit.lower(): unit for unit in (*_TIMES, *_FLOPS, *_BYTES, *_SHARES)}
_FORM = re.compile(r"\s*([\d.]+(?:e[+-]?\d+)?)\s*(%?)\s*(of\s+)?([a-z/]+)\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Goal:
    """What the best time is to reach."""

    value: float  # How many `unit`, or which share of it; > 0.
    # "s", "GFLOPS" and the like; or "copy", "peak" or "ceiling": the bytes of the arrays at the
    # measured copying rate, the operations at the measured peak, or whatever takes longer.
    unit: str

    @classmethod
    def parse(cls, text: str) -> Goal:
        """Read "0.9 of copy", "80% of peak", "200 GFLOPS", "50 GB/s" or "1.2 ms".

        UsageError if it is none of these forms.
        """
        found = _FORM.fullmatch(text)
        unit = _UNITS.get(found[4].lower()) if found else None
        if found is None or unit is None or bool(found[3]) != (unit in _SHARES):
            raise UsageError(f"a goal is {EXAMPLES}, not {text!r}")
        try:
            value = float(found[1]) * (0.01 if found[2] else 1.0)
        except ValueError:
            value = math.nan
        if not 0.0 < value < math.inf or (found[2] and unit not in _SHARES):
            raise UsageError(f"a goal is {EXAMPLES}, not {text!r}")
        if unit in _SHARES and value > 1.0:
            raise UsageError(f"goal {text!r}: a share of what the machine can do is at most 1")
        return cls(value, unit)

    def __str__(self) -> str:
        return f"{self.value:g} {'of ' if self.needs_ceiling else ''}{self.unit}"

    @property
    def needs_ceiling(self) -> bool:
        """Whether it is a share of what the machine can do."""
        return self.unit in _SHARES

    def check(self, flops: float | None) -> None:
        """Raise UsageError if a kernel of so many operations cannot be held against this goal."""
        if flops is None and (self.unit in _FLOPS or self.unit == "peak"):
            raise UsageError(
                f"goal {str(self)!r}: the template does not say how many operations it needs; "
                "give a time, or a speed in GB/s"
            )

    def seconds(
        self, flops: float | None, touched_bytes: float, dtype: str, ceiling: Ceiling | None
    ) -> float:
        """Return the time of one run of a kernel that reaches the goal.

        flops: its operations, if known.
        touched_bytes: bytes of its arrays.
        dtype: type of its elements.
        ceiling: what the machine can do; needed for shares of it only.

        UsageError if such a kernel cannot be held against this goal.
        """
        self.check(flops)
        work = 0.0 if flops is None else flops
        if self.unit in _TIMES:
            return self.value * _TIMES[self.unit]
        if self.unit in _FLOPS:
            return work / (self.value * _FLOPS[self.unit])
        if self.unit in _BYTES:
            return touched_bytes / (self.value * _BYTES[self.unit])
        if ceiling is None:
            raise UsageError(f"goal {str(self)!r}: what the machine can do is not known here")
        if self.unit == "copy":
            return touched_bytes / ceiling.copy_bytes_s / self.value
        if self.unit == "ceiling":
            return ceiling.of_work(flops, touched_bytes, dtype) / self.value
        if dtype not in ceiling.peak_flops:
            raise UsageError(f"goal {str(self)!r}: no peak is measured for {dtype}")
        return work / ceiling.peak_flops[dtype] / self.value
