"""Keeps the valid index sets of a contraction when its tensors are replaced."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from autotune.tile.check.check_function import index_names
from autotune.tile.check.dimension_arithmetic import index_form, literal
from autotune.tile.gradient.symbolic_shapes import ONE
from autotune.tile.index_sets.affine_forms import SizeNeeded, free_direction, is_index
from autotune.tile.syntax.syntax_tree import (
    BinaryExpr,
    Contraction,
    Expr,
    Function,
    IndexConstraint,
    Name,
    Number,
    children,
    names_in,
)


@dataclass(frozen=True, slots=True)
class Place:
    """An index expression and the size of its dimension."""

    form: Expr
    size: Expr


def conditions(places: Iterable[Place], taken: Iterable[str]) -> tuple[IndexConstraint, ...]:
    """Return constraints that replace the brackets around index expressions.

    They say ``form < size``, and that the form is whole: it equals a new index w, or ``0 <= d *
    (form - w) < 1`` for a d that makes its coefficients whole.

    `taken`: names of indices that are in use.
    """
    used = set(taken)
    found: list[IndexConstraint] = []
    for place in dict.fromkeys(places):
        factors = _denominators(place.form)
        if not factors:
            found.append(IndexConstraint(place.form, place.size))
            continue
        numbered = (f"w{k or ''}" for k in range(len(used) + 1))
        whole = next(name for name in numbered if name not in used)
        used.add(whole)
        gap: Expr = BinaryExpr("-", place.form, Name(whole))
        for factor in factors:
            gap = BinaryExpr("*", factor, gap)
        found += [IndexConstraint(gap, ONE), IndexConstraint(Name(whole), place.size)]
    return tuple(found)


def coordinates(
    function: Function, statement: Contraction, places: Iterable[Place]
) -> tuple[Place, ...]:
    """Return few index expressions that together distinguish all valid index sets.

    All expressions and constraints together do, or there would be infinitely many sets. Redundant
    ones are left out, compound expressions first. If coefficients are not known, all are kept.
    """
    kept = [*dict.fromkeys(places), *(_scaled(c) for c in statement.constraints)]
    names = index_names(statement)
    names_last = sorted(enumerate(kept), key=lambda p: (isinstance(p[1].form, Name), -p[0]))
    try:
        forms = {place: index_form(function, place.form) for place in kept}
    except SizeNeeded:
        return tuple(kept)
    for _, place in names_last:
        rest = [p for p in kept if p is not place]
        if free_direction(names, (forms[p] for p in rest)) is None:
            kept = rest
    return tuple(kept)


def _scaled(constraint: IndexConstraint) -> Place:
    """Return the form of a constraint, multiplied so that it is whole, as a place."""
    form, size = constraint.form, constraint.bound
    for factor in _denominators(form):
        form, size = BinaryExpr("*", factor, form), BinaryExpr("*", factor, size)
    return Place(form, size)


def _denominators(form: Expr) -> list[Expr]:
    """Return whole numbers whose product makes all coefficients of an index expression whole."""
    if not any(is_index(name.text) for name in names_in(form)):
        if next(names_in(form), None) is not None:
            return []  # dimensions divide into whole numbers
        return _unless_one(literal(_NOWHERE, form).denominator)
    if isinstance(form, BinaryExpr) and form.op == "/":
        above = _denominators(form.left)
        if next(names_in(form.right), None) is not None:
            return [*above, form.right]
        return [*above, *_unless_one(abs(literal(_NOWHERE, form.right).numerator))]
    return [factor for child in children(form) for factor in _denominators(child)]


def _unless_one(number: int) -> list[Expr]:
    return [] if number == 1 else [Number(number)]


#: Where literals of a function that was checked stand does not matter: they are no mistakes.
_NOWHERE = Function((), (), ())
