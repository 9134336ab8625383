"""Sets of valid indices, exactly: emptiness, bounds, collisions, points (islpy's only home).

Questions go to isl, which solves them over the integers without rounding or giving up; see
docs/decisions/087-index-sets-by-isl.md.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from autotune.tile.affine import Affine, free_direction

if TYPE_CHECKING:
    import islpy

#: Points that are looked at together when a set is enumerated.
_BLOCK: Final = 1 << 18
_contexts: Final = threading.local()


@dataclass(frozen=True, slots=True)
class Range:
    """``0 <= form < size``; of index expressions (`whole`) also: form is an integer."""

    form: Affine
    size: int
    whole: bool = True

    def text(self, names: Mapping[str, str]) -> str:
        """Return the condition in isl's language."""
        form, d = _text(self.form, names)
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
        return f"{_text(self.form, names)[0]} >= 0"

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
        form, d = _text(self.form, names)
        return f"({form}) mod {d * self.modulus} = 0" if self.modulus else f"{form} = 0"

    def holds(self, values: Mapping[str, NDArray[np.int64]]) -> Any:
        """Whether it holds, for arrays of index values."""
        number, d = self.form.at(values)
        return number % (d * self.modulus) == 0 if self.modulus else number == 0


#: A condition on index values; all have a form.
Condition: TypeAlias = Range | AtLeast | Divides


def _text(form: Affine, names: Mapping[str, str]) -> tuple[str, int]:
    """Return a form times its denominator in isl's language, and the denominator."""
    terms, constant, d = form.whole()
    return " + ".join([*(f"{c}*{names[n]}" for n, c in terms.items()), str(constant)]), d


@dataclass(frozen=True, slots=True)
class IndexSet:
    """All integers for some indices that satisfy every range and every other condition.

    The methods other than `unbounded` are for sets that are bounded.
    """

    names: tuple[str, ...]
    ranges: tuple[Range, ...]
    conditions: tuple[Condition, ...] = ()

    def restricted(self, *conditions: Condition) -> IndexSet:
        """Return the subset that satisfies more conditions."""
        return IndexSet(self.names, self.ranges, (*self.conditions, *conditions))

    def unbounded(self) -> str | None:
        """Return an index that can grow forever while every form stays the same, or None."""
        return free_direction(self.names, (r.form for r in self.ranges))

    def is_empty(self) -> bool:
        """Whether no index set is valid."""
        return bool(self._set().is_empty())

    def bounds(self, form: Affine) -> tuple[Fraction, Fraction] | None:
        """Return the least and largest value of a form over the set, or None if it is empty.

        Both are attained: they are bounds over the integers, not over the rationals.
        """
        inside = self._set()
        if inside.is_empty():
            return None
        text, d = _text(form, self._variables())
        value = _isl().Aff(f"{{ {self._tuple()} -> [{text}] }}", _context())
        low, high = inside.min_val(value), inside.max_val(value)
        return Fraction(low.to_python(), d), Fraction(high.to_python(), d)

    def box(self) -> dict[str, tuple[int, int]] | None:
        """Return the least and largest value of every index, or None if the set is empty."""
        found = {}
        for name in self.names:
            bounds = self.bounds(Affine.of({name: 1}))
            if bounds is None:
                return None
            found[name] = (int(bounds[0]), int(bounds[1]))
        return None if not found and self.is_empty() else found

    def collision(self, forms: Sequence[Affine]) -> tuple[dict[str, int], dict[str, int]] | None:
        """Return two valid index sets at which all forms agree, or None if there are none."""
        names = self._variables()
        values = ", ".join(_text(form, names)[0] for form in forms)
        text = f"{{ {self._tuple()} -> [{values}] : {self._condition()} }}"
        written = _isl().Map(text, _context())
        if written.is_injective():
            return None
        pairs = written.apply_range(written.reverse())
        same = _isl().Map.identity(pairs.get_space())
        flat = pairs.subtract(same).wrap().flatten()
        point = flat.lexmin().sample_point()
        numbers = [
            point.get_coordinate_val(_isl().dim_type.set, k).to_python()
            for k in range(2 * len(self.names))
        ]
        first, second = numbers[: len(self.names)], numbers[len(self.names) :]
        return dict(zip(self.names, first, strict=True)), dict(zip(self.names, second, strict=True))

    def shadow(self, onto: IndexSet) -> tuple[Condition, ...] | None:
        """Return which points of a set of the leading indices extend to points of this one.

        Returns
        -------
        tuple or None
            Conditions on points of `onto` that hold for these alone, none where all extend; None
            where it takes more than conditions that hold together.
        """
        kept = len(onto.names)
        names = onto.names
        image = self._set().project_out(_isl().dim_type.set, kept, len(self.names) - kept)
        parts = image.gist(onto._set()).coalesce().get_basic_sets()
        if len(parts) != 1 or parts[0].dim(_isl().dim_type.div):
            return None if parts else (AtLeast(Affine.of({}, -1)),)
        found: list[Condition] = []
        for constraint in parts[0].get_constraints():
            terms = {
                name: constraint.get_coefficient_val(_isl().dim_type.set, k).to_python()
                for k, name in enumerate(names)
            }
            form = Affine.of(terms, constraint.get_constant_val().to_python())
            found.append(Divides(form, 0) if constraint.is_equality() else AtLeast(form))
        return tuple(found)

    def points(self) -> Iterator[dict[str, NDArray[np.int64]]]:
        """Yield all valid index sets in blocks: one array of values per index.

        Every index set comes once. Without indices, a valid empty set is a block of one.
        """
        box = self.box()
        if box is None:
            return
        yield from self._extended({}, 1, list(self.names), box)

    def _extended(
        self,
        values: dict[str, NDArray[np.int64]],
        count: int,
        rest: list[str],
        box: Mapping[str, tuple[int, int]],
    ) -> Iterator[dict[str, NDArray[np.int64]]]:
        """Extend partial index sets by the next index, dropping what no extension makes valid."""
        if not rest:
            if count:
                yield values or {"": np.zeros(1, np.int64)}
            return
        low, high = box[rest[0]]
        width = high - low + 1
        step = max(_BLOCK // width, 1)
        for start in range(0, count, step):
            part = {name: v[start : start + step] for name, v in values.items()}
            rows = min(step, count - start)
            longer = {name: np.repeat(v, width) for name, v in part.items()}
            longer[rest[0]] = np.tile(np.arange(low, high + 1, dtype=np.int64), rows)
            kept = self._possible(longer, rest[1:], box)
            chosen = {name: v[kept] for name, v in longer.items()}
            yield from self._extended(chosen, int(kept.sum()), rest[1:], box)

    def _possible(
        self,
        values: Mapping[str, NDArray[np.int64]],
        rest: Sequence[str],
        box: Mapping[str, tuple[int, int]],
    ) -> NDArray[np.bool_]:
        """Whether partial index sets may be extended: exactly, once no index is left."""
        kept: NDArray[np.bool_] = np.ones(len(next(iter(values.values()))), bool)
        for r in (*self.ranges, *self.conditions):
            open_ = [name for name in r.form.names if name in rest]
            if not open_:
                kept &= r.holds(values)
                continue
            if not isinstance(r, Range):
                continue
            terms, constant, d = r.form.whole()
            ends = [sorted((c * box[n][0], c * box[n][1])) for n, c in terms.items() if n in rest]
            known = sum((c * values[n] for n, c in terms.items() if n in values), start=constant)
            kept &= known + sum(e[1] for e in ends) >= 0
            kept &= known + sum(e[0] for e in ends) < d * r.size
        return kept

    # -- isl -----------------------------------------------------------------------------------

    def _variables(self) -> dict[str, str]:
        return {name: f"i{k}" for k, name in enumerate(self.names)}

    def _tuple(self) -> str:
        return f"[{', '.join(self._variables().values())}]"

    def _condition(self) -> str:
        names = self._variables()
        return " and ".join([c.text(names) for c in (*self.ranges, *self.conditions)] or ["true"])

    def _set(self) -> islpy.Set:
        found: islpy.Set = _isl().Set(f"{{ {self._tuple()} : {self._condition()} }}", _context())
        return found


def _isl() -> Any:
    import islpy  # loaded when a contraction is first bound, not when Tile is imported

    return islpy


def _context() -> Any:
    """Return isl's context of this thread: it is not to be shared between threads."""
    if not hasattr(_contexts, "own"):
        _contexts.own = _isl().Context()
    return _contexts.own
