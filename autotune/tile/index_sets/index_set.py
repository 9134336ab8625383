"""Exact queries on sets of valid indices: emptiness, bounds, collisions, points.

isl solves them over the integers without rounding; only this file imports islpy. See
docs/decisions/087-isl-answers-questions-on-index-sets.md.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from autotune.errors import UsageError
from autotune.tile.index_sets.affine_forms import Affine, free_direction
from autotune.tile.index_sets.index_conditions import (
    AtLeast,
    Block,
    Condition,
    Divides,
    Ends,
    RangeCondition,
    enumerated,
    isl_text,
)

if TYPE_CHECKING:
    import islpy

#: Limits of isl's operations (about a million a second) for required and for optional results.
_MOST: Final = 3_000_000
_FEW: Final = 100_000
#: Binary digits of coefficients, all together, up to which isl is asked what it answers by
#: parametric integer programming, which takes no limit: 80 digits can keep it for hours.
_MAX_DIGITS: Final = 48
_contexts: Final = threading.local()


class IndexSetTooComplexError(UsageError):
    """Index sets that isl cannot decide in reasonable time; coefficients are large and many."""


@dataclass(frozen=True, slots=True)
class IndexSet:
    """All integers for some indices that satisfy every range and every other condition.

    The methods other than `unbounded` are for sets that are bounded.
    """

    names: tuple[str, ...]
    ranges: tuple[RangeCondition, ...]
    conditions: tuple[Condition, ...] = ()

    def restricted(self, *conditions: Condition) -> IndexSet:
        """Return the subset that satisfies more conditions."""
        return IndexSet(self.names, self.ranges, (*self.conditions, *conditions))

    def unbounded(self) -> str | None:
        """Return an index that can grow without changing any form, or None."""
        return free_direction(self.names, (r.form for r in self.ranges))

    def is_empty(self) -> bool:
        """Whether no index set is valid."""
        with _limited(_MOST):
            return bool(self._set().is_empty())

    def bounds(self, form: Affine) -> tuple[Fraction, Fraction] | None:
        """Return the least and largest value of a form over the set, or None if it is empty.

        Both are attained: they are bounds over the integers, not over the rationals.
        """
        with _limited(_MOST):
            inside = self._set()
            return None if inside.is_empty() else self._bounds(inside, form)

    def box(self) -> Ends | None:
        """Return the least and largest value of every index, or None if the set is empty."""
        with _limited(_MOST):
            inside = self._set()
            if inside.is_empty():
                return None
        found = {}
        for name in self.names:
            with _limited(_MOST):
                low, high = self._bounds(inside, Affine.of({name: 1}))
            found[name] = (int(low), int(high))
        return found

    def collision(self, forms: Sequence[Affine]) -> tuple[dict[str, int], dict[str, int]] | None:
        """Return two valid index sets at which all forms agree, or None if there are none."""
        names = self._variables()
        values = ", ".join(isl_text(form, names)[0] for form in forms)
        text = f"{{ {self._tuple()} -> [{values}] : {self._condition()} }}"
        with _limited(_MOST):
            written = _isl().Map(text, _context())
            if written.is_injective():
                return None
            pairs = written.apply_range(written.reverse())
            same = _isl().Map.identity(pairs.get_space())
            point = _example(pairs.subtract(same).wrap().flatten(), self._is_simple(self.names))
        half = len(self.names)
        numbers = [
            point.get_coordinate_val(_isl().dim_type.set, k).to_python() for k in range(2 * half)
        ]
        first, second = numbers[:half], numbers[half:]
        return dict(zip(self.names, first, strict=True)), dict(zip(self.names, second, strict=True))

    def projection(self, onto: IndexSet) -> tuple[Condition, ...] | None:
        """Return which points of a set of the leading indices extend to points of this one.

        Returns a conjunction of conditions on points of `onto`, empty if all extend; None if no
        conjunction describes them, or if the search takes too long.
        """
        kept = len(onto.names)
        names = onto.names
        if not self._is_simple(self.names[kept:]):
            return None
        with _limited(_MOST):
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

    def points(self, box: Ends | None = None) -> Iterator[Block]:
        """Yield all valid index sets in blocks: one array of values per index.

        Every index set comes once. Without indices, a valid empty set is a block of one. What `box`
        returns need not be found out again.
        """
        box = self.box() if box is None else box
        if box is not None:
            yield from enumerated(self.names, (*self.ranges, *self.conditions), box)

    # -- isl -----------------------------------------------------------------------------------

    def _is_simple(self, names: Sequence[str]) -> bool:
        """Whether the coefficients of some indices are small and few."""
        forms = [condition.form.whole()[0] for condition in (*self.ranges, *self.conditions)]
        digits = (abs(f[name]).bit_length() - 1 for f in forms for name in names if name in f)
        return sum(digits) <= _MAX_DIGITS

    def _variables(self) -> dict[str, str]:
        return {name: f"i{k}" for k, name in enumerate(self.names)}

    def _tuple(self) -> str:
        return f"[{', '.join(self._variables().values())}]"

    def _condition(self) -> str:
        names = self._variables()
        return " and ".join([c.text(names) for c in (*self.ranges, *self.conditions)] or ["true"])

    def _bounds(self, inside: islpy.Set, form: Affine) -> tuple[Fraction, Fraction]:
        text, d = isl_text(form, self._variables())
        value = _isl().Aff(f"{{ {self._tuple()} -> [{text}] }}", _context())
        low, high = inside.min_val(value), inside.max_val(value)
        return Fraction(low.to_python(), d), Fraction(high.to_python(), d)

    def _set(self) -> islpy.Set:
        found: islpy.Set = _isl().Set(f"{{ {self._tuple()} : {self._condition()} }}", _context())
        return found


def _example(pairs: Any, simple: bool) -> Any:
    """Return the first point of a nonempty set, or any point if the first takes too long."""
    with contextlib.suppress(IndexSetTooComplexError), _limited(_FEW):
        if simple:
            return pairs.lexmin().sample_point()
    with _limited(_MOST):
        return pairs.sample_point()


@contextlib.contextmanager
def _limited(operations: int) -> Iterator[None]:
    """Limit isl's operations; limits may be nested, and the inner one counts."""
    context = _context()
    before = context.get_max_operations()
    context.reset_operations()
    context.set_max_operations(operations)
    try:
        yield
    except _isl().Error:
        raise IndexSetTooComplexError(
            "the index sets of a contraction are too complicated to decide"
        ) from None
    finally:
        context.reset_operations()
        context.set_max_operations(before)


def _isl() -> Any:
    import islpy  # loaded when a contraction is first bound, not when Tile is imported

    return islpy


def _context() -> Any:
    """Return isl's context of this thread: it is not to be shared between threads."""
    if not hasattr(_contexts, "own"):
        _contexts.own = _isl().Context()
    return _contexts.own
