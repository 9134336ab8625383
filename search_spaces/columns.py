"""Lazy columns: a mapping from column name to array that decodes only what is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from search_spaces.knob import Column, IntArray, Knob


class Codec:
    """The mixed-radix code between indices and knob positions; the first knob is the top digit.

    `knobs`: the digits.
    """

    def __init__(self, knobs: tuple[Knob, ...]) -> None:
        self.knobs = knobs
        self.radices = tuple(len(knob) for knob in knobs)
        strides = [1]
        for radix in reversed(self.radices):
            strides.append(strides[-1] * radix)
        self.size = strides.pop()
        self.strides = tuple(reversed(strides))
        self.owners = {name: k for k, knob in enumerate(knobs) for name in knob.column_names}

    def digit(self, indices: IntArray, k: int) -> IntArray:
        """Positions of knob `k`, int64 (n,), for indices within the space."""
        stride, radix = self.strides[k], self.radices[k]
        # NumPy divides by a scalar much faster than it takes a remainder.
        high = indices // stride if stride > 1 else indices
        return high - (high // radix) * radix if k else high

    def digits(self, index: int) -> list[int]:
        """Position of every knob for one index."""
        return [index // s % r for s, r in zip(self.strides, self.radices, strict=True)]


class UnknownColumnError(KeyError):
    """A column that no knob has."""


class LazyColumns(Mapping[str, Column]):
    """Columns of the given indices, decoded at the first access and cached."""

    def __init__(self, codec: Codec, indices: IntArray) -> None:
        self._codec = codec
        self._indices = indices
        self._positions: dict[int, IntArray] = {}
        self._read: dict[str, Column] = {}

    def __getitem__(self, name: str) -> Column:
        if name not in self._read:
            if name not in self._codec.owners:
                raise UnknownColumnError(name)
            k = self._codec.owners[name]
            if k not in self._positions:
                self._positions[k] = self._codec.digit(self._indices, k)
            table = self._codec.knobs[k].tables[name]
            self._read[name] = table[self._positions[k]]
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._codec.owners)

    def __len__(self) -> int:
        return len(self._codec.owners)

    def __contains__(self, name: object) -> bool:
        return name in self._codec.owners

    def rows(self, mask: npt.NDArray[np.bool_]) -> LazyColumns:
        """Keep the rows where `mask`, bool (n,), is True, and their decoded columns."""
        kept = LazyColumns(self._codec, self._indices[mask])
        kept._positions = {k: positions[mask] for k, positions in self._positions.items()}
        kept._read = {name: column[mask] for name, column in self._read.items()}
        return kept
