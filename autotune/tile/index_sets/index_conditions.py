"""Conditions on index values: ranges, lower bounds, divisibility."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

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
