"""Conditions on index values (ranges, lower bounds, divisibility), and what satisfies them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from autotune.errors import UsageError
from autotune.tile.index_sets.affine_forms import Affine


@dataclass(frozen=True, slots=True)
class RangeCondition:
    """``0 <= form < size``; of index expressions (`whole`) also: form is an integer."""

    form: Affine
    size: int
    whole: bool = True

    def text(self, names: Mapping[str, str]) -> str:
        """Return the condition in isl's language."""
        form, d = isl_text(self.form, names)
        top = d * self.size - (d if self.whole else 1)
        inside = f"0 <= {form} <= {top}"
        return f"{inside} and ({form}) mod {d} = 0" if self.whole and d > 1 else inside

    def holds(self, values: Mapping[str, NDArray[np.int64]]) -> Any:
        """Whether it holds, for arrays of index values."""
        number, d = self.form.at(values)
        inside = (number >= 0) & (number < d * self.size)
        return inside & (number % d == 0) if self.whole and d > 1 else inside


@dataclass(frozen=True, slots=True)
class AtLeast:
    """``form >= 0``."""

    form: Affine

    def text(self, names: Mapping[str, str]) -> str:
        """Return the condition in isl's language."""
        return f"{isl_text(self.form, names)[0]} >= 0"

    def holds(self, values: Mapping[str, NDArray[np.int64]]) -> Any:
        """Whether it holds, for arrays of index values."""
        return self.form.at(values)[0] >= 0


@dataclass(frozen=True, slots=True)
class Divides:
    """``form`` is a whole multiple of `modulus`; 0 if that is 0."""

    form: Affine
    modulus: int

    def text(self, names: Mapping[str, str]) -> str:
        """Return the condition in isl's language."""
        form, d = isl_text(self.form, names)
        return f"({form}) mod {d * self.modulus} = 0" if self.modulus else f"{form} = 0"

    def holds(self, values: Mapping[str, NDArray[np.int64]]) -> Any:
        """Whether it holds, for arrays of index values."""
        number, d = self.form.at(values)
        return number % (d * self.modulus) == 0 if self.modulus else number == 0


#: A condition on index values; all have a form.
Condition: TypeAlias = RangeCondition | AtLeast | Divides


def reach(form: Affine, box: Mapping[str, tuple[int, int]]) -> int:
    """Return the largest absolute value of a form times its denominator inside a box."""
    terms, constant, _ = form.whole()
    return abs(constant) + sum(abs(c) * max(map(abs, box[name])) for name, c in terms.items())


def isl_text(form: Affine, names: Mapping[str, str]) -> tuple[str, int]:
    """Return a form times its denominator in isl's language, and the denominator."""
    terms, constant, d = form.whole()
    return " + ".join([*(f"{c}*{names[n]}" for n, c in terms.items()), str(constant)]), d


#: Index values by name, one array of equal length for each.
Block = dict[str, NDArray[np.int64]]
#: Least and largest value of every index.
Ends = Mapping[str, tuple[int, int]]
#: Number of points per block.
_BLOCK: Final = 1 << 18


def enumerated(names: Sequence[str], conditions: Sequence[Condition], box: Ends) -> Iterator[Block]:
    """Yield all integers inside a box that satisfy every condition, in blocks.

    Raises UsageError if a value on the way would not fit in 64 bits.
    """
    check_reach(conditions, box)
    yield from _extended({}, 1, list(names), conditions, box)


def check_reach(conditions: Iterable[Condition], box: Ends) -> None:
    """Refuse conditions whose values inside a box would not fit in 64 bits, by a UsageError."""
    for condition in conditions:
        size = condition.size if isinstance(condition, RangeCondition) else 1
        top = abs(condition.form.denominator * size)
        if max(reach(condition.form, box), top) >= 2**62:
            raise UsageError(f"indices reach too far to be enumerated: {condition.form}")


def _extended(
    values: Block,
    count: int,
    rest: list[str],
    conditions: Sequence[Condition],
    box: Ends,
) -> Iterator[Block]:
    """Extend partial points by the next index; drop points without a valid extension."""
    if not rest:
        if count:
            yield values or {"": np.zeros(1, np.int64)}
        return
    low, high = box[rest[0]]
    for first in range(low, high + 1, _BLOCK):
        numbers = np.arange(first, min(first + _BLOCK, high + 1), dtype=np.int64)
        step = max(_BLOCK // len(numbers), 1)
        for start in range(0, count, step):
            longer = {
                name: np.repeat(v[start : start + step], len(numbers)) for name, v in values.items()
            }
            longer[rest[0]] = np.tile(numbers, min(step, count - start))
            kept = _possible(longer, rest[1:], conditions, box)
            chosen = {name: v[kept] for name, v in longer.items()}
            yield from _extended(chosen, int(kept.sum()), rest[1:], conditions, box)


def _possible(
    values: Block,
    rest: Sequence[str],
    conditions: Sequence[Condition],
    box: Ends,
) -> NDArray[np.bool_]:
    """Whether partial points may have a valid extension; exact for complete points."""
    kept: NDArray[np.bool_] = np.ones(len(next(iter(values.values()))), bool)
    for condition in conditions:
        if not any(name in rest for name in condition.form.names):
            kept &= condition.holds(values)
        elif isinstance(condition, RangeCondition):
            terms, constant, d = condition.form.whole()
            ends = [sorted((c * box[n][0], c * box[n][1])) for n, c in terms.items() if n in rest]
            known = sum((c * values[n] for n, c in terms.items() if n in values), start=constant)
            kept &= known + sum(e[1] for e in ends) >= 0
            kept &= known + sum(e[0] for e in ends) < d * condition.size
    return kept
