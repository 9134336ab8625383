"""The floating-point formats that functions are written for."""

from __future__ import annotations

import struct
from dataclasses import dataclass


@dataclass(frozen=True)
class Format:
    """A binary floating-point format."""

    #: Its name.
    dtype: str
    #: Its width, and how many bits of it hold the mantissa.
    bits: int
    mantissa: int

    @property
    def bias(self) -> int:
        """Bias of stored exponents."""
        return (1 << (self.bits - self.mantissa - 2)) - 1

    @property
    def tiny(self) -> float:
        """Smallest normal number."""
        return 2.0 ** (1 - self.bias)

    @property
    def round_to_integer(self) -> float:
        """Adding this leaves the nearest integer in the low bits of the mantissa."""
        return 1.5 * 2.0**self.mantissa

    def pattern(self, value: float) -> int:
        """Bits of `value` in this format, as an integer."""
        kind = "<f" if self.bits == 32 else "<d"
        return int.from_bytes(struct.pack(kind, value), "little")


FORMATS = {form.dtype: form for form in (Format("float32", 32, 23), Format("float64", 64, 52))}
