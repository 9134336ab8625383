"""Limits of contractions and tensors: numbers of operations and of elements."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Final

from autotune.errors import UsageError
from autotune.system.environment_variables import OPERATIONS_VARIABLE
from autotune.tile.check.dimension_arithmetic import dimension
from autotune.tile.index_sets.index_conditions import RangeCondition
from autotune.tile.index_sets.index_set import IndexSet
from autotune.tile.index_sets.lattice import independent
from autotune.tile.syntax.error_locations import tile_error
from autotune.tile.syntax.syntax_tree import Contraction, Expr, Function, Number, Span
from autotune.tile.syntax.unparser import expr_code

#: Default limit of operations of a contraction, one for each set of index values: minutes of CPU
#: time.
MAX_OPERATIONS: Final = 2**39


def operation_limit(given: object = None) -> int:
    """Return the limit of operations of a contraction: as given, or from the environment.

    Raises UsageError if that is no whole number of at least 1.
    """
    if given is None:
        return _limit_of_environment()
    if isinstance(given, bool) or not isinstance(given, Integral) or given < 1:
        raise UsageError(
            f"most_operations must be a whole number of at least 1, as in 2**44, not {given!r}"
        )
    return int(given)


def _limit_of_environment() -> int:
    text = os.environ.get(OPERATIONS_VARIABLE, "").strip()
    base, sign, exponent = text.partition("^")
    if not text:
        return MAX_OPERATIONS
    if all(t.isascii() and t.isdigit() and len(t) < 20 for t in (base, exponent or "1")):
        small = int(base) < 100 and 0 < len(exponent) < 3
        if int(base) > 0 and (small or not sign):
            return int(pow(int(base), int(exponent or "1")))
    raise UsageError(
        f"{OPERATIONS_VARIABLE}={text}: it is a whole number of at least 1, as in "
        f"{OPERATIONS_VARIABLE}=2^44"
    )


def operations(domain: IndexSet) -> int:
    """Return an upper bound of the index sets of a contraction, which is often exact.

    Linearly independent forms determine an index set, so the product of the numbers of their values
    is a bound; the forms with the fewest values are used.
    """
    ranges = sorted(domain.ranges, key=_values)
    rows = [[r.form.whole()[0].get(name, 0) for name in domain.names] for r in ranges]
    used = independent(rows, len(domain.names))
    return math.prod(_values(r) for r, is_used in zip(ranges, used, strict=True) if is_used)


def check_operations(
    function: Function, statement: Contraction, domain: IndexSet, allowed: int
) -> None:
    """Raise an error for a contraction with too many operations.

    Raises TileError if it has more; it says how many.
    """
    found = operations(domain)
    if found > allowed:
        raise tile_error(
            function, statement.span,
            f"{statement.target.text} takes {_shown(found)} operations, "
            f"more than {_shown(allowed)}",
            f"bound its indices by constraints; or allow more by {OPERATIONS_VARIABLE}="
            f"2^{(found - 1).bit_length()} in the environment, most_operations=... in Python",
        )  # fmt: skip


def _values(r: RangeCondition) -> int:
    """Return an upper bound of the number of values of a form; allowed fractions count."""
    return max(r.size, 0) * (1 if r.whole else r.form.denominator)


def _shown(number: int) -> str:
    """Return a power of 2 as such, other numbers with three digits."""
    if number & (number - 1) == 0:
        return f"2^{number.bit_length() - 1}"
    return f"{number:.3g}" if math.log10(number) < 300 else f"2^{number.bit_length()}"


#: Tensors with more elements than this are refused.
MAX_ELEMENTS: Final = 2**40


def shape_of(
    function: Function, name: str, sizes: Sequence[Expr], known: Mapping[str, int]
) -> tuple[int, ...]:
    """Return the shape of a tensor of some sizes.

    Raises TileError if one is less than 1.
    """
    shape = tuple(dimension(function, size, known) for size in sizes)
    for axis, (expr, size) in enumerate(zip(sizes, shape, strict=True)):
        if size < 1:
            said = str(size) if isinstance(expr, Number) else f"{expr_code(expr)} = {size}"
            raise tile_error(
                function, expr.span,
                f"dimension {axis} of {name} would be {said}: sizes are at least 1",
            )  # fmt: skip
    return shape


def check_elements(function: Function, span: Span, name: str, shape: Sequence[int]) -> None:
    """Refuse a tensor with too many elements."""
    if math.prod(shape) > MAX_ELEMENTS:
        raise tile_error(function, span, f"{name} would have {math.prod(shape)} elements")
