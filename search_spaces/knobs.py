"""The kinds of knob a template can define: choice, reorder, annotate, and split (split.py)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from search_spaces.knob import Column, Knob, KnobValue, SpaceError, as_value, checked_candidates
from search_spaces.split import SplitKnob

__all__ = ["AnnotateKnob", "ChoiceKnob", "Knob", "KnobValue", "ReorderKnob", "SplitKnob"]


@dataclass(frozen=True)
class ChoiceKnob(Knob):
    """A value out of a list.

    Numeric if every value is an int or a float: its column NAME then holds the value, and the
    next smaller and larger values are neighbours. Otherwise categorical: column NAME holds the
    position and every other value is a neighbour.

    Parameters
    ----------
    name : str
        Name of the knob.
    values : sequence of int, float, bool, str, or tuples of ints or of strings
        The choices, all different.
    preferred : int, float, bool, str or tuple, optional
        The default, one of them; otherwise the first one. It does not belong to the specification:
        a default that depends on the machine leaves the space the same.
    """

    values: Sequence[Any]
    preferred: Any = None

    def __post_init__(self) -> None:
        if isinstance(self.values, str) or not isinstance(self.values, Iterable):
            raise SpaceError(f"knob {self.name!r}: values must be a list, not {self.values!r}")
        object.__setattr__(self, "values", tuple(as_value(v) for v in self.values))
        for value in self.values:
            if not _is_knob_value(value):
                raise SpaceError(
                    f"knob {self.name!r}: {value!r} is not a finite number of 64 bits, a flag, "
                    "a string or a tuple of ints or of strings"
                )
        self._check()
        _ = self.default

    def _enumerate(self) -> Iterable[KnobValue]:
        return self.values

    @property
    def default(self) -> int:
        """Position of the default value."""
        return 0 if self.preferred is None else self.index_of(self.preferred)

    @cached_property
    def numeric(self) -> bool:
        """True if every value is an int or a float."""
        return all(isinstance(v, int | float) and not isinstance(v, bool) for v in self.values)

    @cached_property
    def tables(self) -> Mapping[str, Column]:
        """One column NAME: the values if numeric, else positions."""
        if not self.numeric:
            return {self.name: np.arange(len(self), dtype=np.int64)}
        if all(isinstance(v, int) for v in self.values):
            return {self.name: np.array(self.values, dtype=np.int64)}
        return {self.name: np.array(self.values, dtype=np.float64)}

    @cached_property
    def _by_size(self) -> tuple[list[int], list[int]]:
        """Positions in order of value, and each position's rank in that order."""
        order = np.argsort(self.tables[self.name], kind="stable")
        return order.tolist(), np.argsort(order).tolist()

    def neighbors(self, i: int) -> list[int]:
        """Next smaller and next larger value, or every other value if categorical."""
        if not self.numeric:
            return _others(i, len(self))
        order, rank = self._by_size
        return [order[r] for r in (rank[i] - 1, rank[i] + 1) if 0 <= r < len(order)]

    def spec(self) -> dict[str, Any]:
        """Kind, name and values."""
        return {
            "kind": "choice",
            "name": self.name,
            "values": [list(v) if isinstance(v, tuple) else v for v in self.values],
        }


@dataclass(frozen=True)
class ReorderKnob(Knob):
    """An order of axes: tuples of ints, `order[k]` being the axis that comes k-th. Categorical.

    Under "all" two orders are neighbours if they differ by swapping two adjacent axes; under
    "candidates" every other order is a neighbour. The default is the first order: under "all",
    the axes as given.

    Parameters
    ----------
    name : str
        Name of the knob.
    axes : sequence of str
        Names of the axes.
    policy : {"all", "candidates"}
        All permutations (of at most 9 axes), or those listed.
    candidates : sequence of permutations of 0 to len(axes) - 1
        For the policy "candidates" only.
    """

    axes: Sequence[str]
    policy: str = "all"
    candidates: Sequence[Sequence[int]] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "axes", _names(self.name, "axes", self.axes))
        listed = checked_candidates(self.name, self.policy, ("all",), self.candidates)
        object.__setattr__(self, "candidates", listed)
        for order in listed or ():
            if sorted(order) != list(range(len(self.axes))):
                raise SpaceError(
                    f"knob {self.name!r}: {order} is not a permutation of 0 to {len(self.axes) - 1}"
                )
        self._check()

    def _enumerate(self) -> Iterable[KnobValue]:
        if self.candidates is not None:
            return (tuple(order) for order in self.candidates)
        return itertools.permutations(range(len(self.axes)))

    def neighbors(self, i: int) -> list[int]:
        """Orders that swap two adjacent axes, or every other candidate."""
        if self.candidates is not None:
            return _others(i, len(self))
        order = cast(tuple[int, ...], self.value(i))
        found = []
        for k in range(len(order) - 1):
            swapped = (*order[:k], order[k + 1], order[k], *order[k + 2 :])
            found.append(self._positions[swapped])
        return sorted(found)

    def spec(self) -> dict[str, Any]:
        """Kind, name, axes, and the orders unless they are all permutations."""
        spec: dict[str, Any] = {"kind": "reorder", "name": self.name, "axes": list(self.axes)}
        if self.candidates is not None:
            spec["values"] = [list(order) for order in self.candidates]
        return spec


@dataclass(frozen=True)
class AnnotateKnob(Knob):
    """One annotation per axis: tuples of str, every combination. Categorical.

    Neighbours differ in the annotation of one axis. The default is the first annotation on every
    axis, so "none" goes first.

    Parameters
    ----------
    name : str
        Name of the knob.
    axes : sequence of str
        Names of the axes.
    annotations : sequence of str
        What each axis may be annotated with.
    """

    axes: Sequence[str]
    annotations: Sequence[str] = ("none", "unroll", "vectorize")

    def __post_init__(self) -> None:
        object.__setattr__(self, "axes", _names(self.name, "axes", self.axes))
        annotations = _names(self.name, "annotations", self.annotations)
        object.__setattr__(self, "annotations", annotations)
        self._check()

    def _enumerate(self) -> Iterable[KnobValue]:
        return itertools.product(self.annotations, repeat=len(self.axes))

    def neighbors(self, i: int) -> list[int]:
        """Positions that differ in one axis: one digit in base `len(annotations)`."""
        base = len(self.annotations)
        found = []
        for axis in range(len(self.axes)):
            unit = base**axis
            here = i // unit % base
            found += [i + (there - here) * unit for there in _others(here, base)]
        return sorted(found)

    def spec(self) -> dict[str, Any]:
        """Kind, name, axes and annotations."""
        return {
            "kind": "annotate",
            "name": self.name,
            "axes": list(self.axes),
            "annotations": list(self.annotations),
        }


def _is_knob_value(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    if isinstance(value, tuple):
        return all(type(v) is int for v in value) or all(isinstance(v, str) for v in value)
    return isinstance(value, str)


def _others(i: int, n: int) -> list[int]:
    return [j for j in range(n) if j != i]


def _names(knob: str, what: str, names: Sequence[str]) -> tuple[str, ...]:
    """Check a list of distinct names, as axes and annotations are given."""
    listed = tuple(names)
    if isinstance(names, str) or not listed or not all(isinstance(n, str) and n for n in listed):
        raise SpaceError(f"knob {knob!r}: {what} must be a list of names, not {names!r}")
    if len(set(listed)) != len(listed):
        raise SpaceError(f"knob {knob!r}: {what} name something twice: {', '.join(listed)}")
    return listed
