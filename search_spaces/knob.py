"""The base class of knobs: a named, finite dimension of a search space.

A knob defines its own values, topology, default, columns and specification, so that every tuner and
model works with every kind of knob, also with new kinds.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt


class SpaceError(ValueError):
    """An invalid knob, constraint, index or value; the message says what to do."""


KnobValue = int | float | bool | str | tuple[int, ...] | tuple[str, ...]
IntArray = npt.NDArray[np.int64]
Column = npt.NDArray[np.int64] | npt.NDArray[np.float64]

# Largest number of values, which a knob has in memory; more is a mistake in its definition.
MAX_VALUES = 1 << 20


@dataclass(frozen=True)
class Knob(ABC):
    """One dimension of a space: `len(knob)` values, addressed by position 0, 1, 2, ...

    Parameters
    ----------
    name : str
        Name of the knob within its space.
    """

    name: str

    @abstractmethod
    def _enumerate(self) -> Iterable[KnobValue]:
        """Yield the values in order of position."""

    @property
    def numeric(self) -> bool:
        """Whether the columns hold quantities, and not positions of categories."""
        return False

    @abstractmethod
    def neighbors(self, i: int) -> list[int]:
        """Positions one step away from position `i` in this knob's topology (symmetric)."""

    @abstractmethod
    def spec(self) -> dict[str, Any]:
        """JSON-able description that determines the values and their order."""

    @property
    def default(self) -> int:
        """Position of the default value."""
        return 0

    @cached_property
    def tables(self) -> Mapping[str, Column]:
        """For each column name, the column's value at every position: int64 or float64 (len,)."""
        return {self.name: np.arange(len(self), dtype=np.int64)}

    @cached_property
    def _values(self) -> tuple[KnobValue, ...]:
        values = tuple(itertools.islice(self._enumerate(), MAX_VALUES + 1))
        if len(values) > MAX_VALUES:
            raise SpaceError(
                f"knob {self.name!r} has more than {MAX_VALUES} values; list candidates instead"
            )
        if not values:
            raise SpaceError(f"knob {self.name!r} has no values; it needs at least one")
        return values

    @cached_property
    def _positions(self) -> dict[KnobValue, int]:
        positions: dict[KnobValue, int] = {}
        for i, value in enumerate(self._values):
            if positions.setdefault(value, i) != i:
                raise SpaceError(f"knob {self.name!r} has the value {value!r} twice")
        return positions

    def _check(self) -> None:
        """Enumerate the values at the definition of the knob, so that mistakes are found there."""
        if not isinstance(self.name, str) or not self.name:
            raise SpaceError(f"a knob's name must be a non-empty string, not {self.name!r}")
        _ = self._positions

    def __len__(self) -> int:
        return len(self._values)

    def value(self, i: int) -> KnobValue:
        """Value at position `i`; SpaceError if there is no such position."""
        if not 0 <= i < len(self):
            raise SpaceError(f"knob {self.name!r} has positions 0 to {len(self) - 1}, not {i}")
        return self._values[i]

    def index_of(self, value: object) -> int:
        """Position of `value`; lists stand for tuples, NumPy scalars for numbers.

        SpaceError if the knob does not take this value.
        """
        plain = as_value(value)
        try:
            i: int | None = self._positions.get(cast(KnobValue, plain))
        except TypeError:  # unhashable, so it is not a value of a knob
            i = None
        # True == 1 in Python, but a flag is not a number.
        if i is None or isinstance(plain, bool) != isinstance(self._values[i], bool):
            raise SpaceError(
                f"knob {self.name!r} does not take {value!r}; its values are {self._listing()}"
            )
        return i

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the columns this knob contributes."""
        return tuple(self.tables)

    @cached_property
    def adjacency(self) -> tuple[IntArray, IntArray]:
        """The neighbours of all positions one after the other, and how many each has; int64."""
        around = [self.neighbors(i) for i in range(len(self))]
        counts = np.array([len(near) for near in around], dtype=np.int64)
        return np.array([*itertools.chain(*around)], dtype=np.int64), counts

    def steps_from(self, i: int) -> IntArray:
        """Fewest neighbour steps from position `i` to each position, int64 (len,).

        A position that cannot be reached counts as `len(self)` steps away.
        """
        steps = np.full(len(self), len(self), dtype=np.int64)
        steps[i] = 0
        frontier, found, distance = [i], 1, 0
        while frontier and found < len(self):
            distance += 1
            reached = []
            for here in frontier:
                for there in self.neighbors(here):
                    if steps[there] == len(self):
                        steps[there] = distance
                        reached.append(there)
            frontier, found = reached, found + len(reached)
        return steps

    def _listing(self, most: int = 8) -> str:
        shown = ", ".join(repr(v) for v in self._values[:most])
        return shown if len(self) <= most else f"{shown}, ... ({len(self)} in all)"


def as_value(value: object) -> object:
    """Bring a value to a knob's form: lists become tuples, NumPy scalars Python scalars."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple | np.ndarray):
        return tuple(as_value(item) for item in value)
    return value


def checked_candidates(
    name: str, policy: str, others: tuple[str, ...], candidates: Sequence[Sequence[int]] | None
) -> tuple[tuple[int, ...], ...] | None:
    """Check a policy, and that candidates (tuples of ints) are given only if it needs them."""
    if policy not in (*others, "candidates"):
        known = ", ".join((*others, "candidates"))
        raise SpaceError(f"knob {name!r}: unknown policy {policy!r}; expected one of {known}")
    if (policy == "candidates") != (candidates is not None):
        raise SpaceError(f'knob {name!r}: `candidates` and policy="candidates" go together')
    if candidates is None:
        return None
    listed = []
    for candidate in candidates:
        plain = as_value(candidate)
        if not isinstance(plain, tuple) or not all(type(size) is int for size in plain):
            raise SpaceError(f"knob {name!r}: candidate {candidate!r} is not a tuple of ints")
        listed.append(plain)
    return tuple(listed)
