"""Measured times as short texts."""

from __future__ import annotations

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def time_text(seconds: float) -> str:
    """Return a measured time with three digits: ``0.00123`` -> "1.23 ms"."""
    scale, unit = next((pair for pair in _TIMES if seconds >= pair[0]), _TIMES[-1])
    return f"{three_digits(seconds / scale)} {unit}"


def three_digits(value: float) -> str:
    """Return a number >= 0 with three significant digits, and all digits before the point."""
    return f"{value:.0f}" if value >= 99.95 else f"{value:#.3g}"
