"""Exact checks: on their inputs nothing is rounded in any order of evaluation.

In: a workload and its reference. Out: checks whose answers must be equal, or must differ by a few
units in the last place; none if no such inputs are found.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from autotune.errors import UsageError
from autotune.ir import dtypes
from autotune.measure.checks.check_inputs import (
    SATURATED,
    Array,
    Draw,
    InputSpec,
    largest_integers,
    powers_of_two,
    saturated,
    saturated_along,
    whole_numbers,
    whole_range,
)
from autotune.measure.checks.check_spec import AnswerCheck, CheckSpec, rounded
from autotune.measure.checks.error_bounds import CHANGE, Allowance, perturbed_inputs
from autotune.measure.checks.reference import Reference, is_floating

# Most exact checks that a long sum is divided into, where it cannot be exact as a whole.
_MAX_PARTS = 8

# Functions that have exact values where they are saturated.
_SATURATING = frozenset({"exp", "tanh", "sigmoid", "erf"})

# Functions that round nothing.
_EXACT = frozenset({"if_then_else", "likely", "abs", "floor", "ceil", "round", "trunc", "fmod"})

# By how many units in the last place the accumulator may be off after exp.
_ULPS_OF_EXP = 4

# Largest argument of exp at which a candidate may be off by no more than that: softmax has 2048.
_LARGEST_ARGUMENT = 2.0**13

# Inputs of workloads that compute integers from integers.
_INTEGERS: dict[str, Draw] = {
    "integers of all sizes": whole_range,
    "the largest integers": largest_integers,
}

# Differences of products of two differences are up to 8 times as large as those of magnitudes.
_HIDDEN_BITS = 3


def exact_checks(workload: CheckSpec, reference: Reference) -> list[AnswerCheck]:
    """Return the exact checks, whose answers must be equal; none if no exact inputs are found."""
    if not workload.floats:
        found = []
        for number, (what, draw) in enumerate(_INTEGERS.items()):
            inputs = workload.draw(draw, 2 + number)
            with contextlib.suppress(UsageError):  # it is not defined for all integers
                found.append(_exact(workload, what, inputs, reference(inputs)))
        return found
    if workload.functions is None or workload.functions <= _EXACT:
        check = _at_whole_numbers(workload, reference)
        found = _at_parts(workload, reference) if check is None else [check]
        if found:
            return found
    for what, draw, ulps in _families(workload):
        check = _exact_check(workload, reference, what, draw, bounded_by_magnitudes=False)
        if check is not None and not _has_large_arguments(workload, reference, check.inputs):
            return [_within(check, ulps * workload.precision.epsilon)]
    return []


def _families(workload: CheckSpec) -> Iterator[tuple[str, Draw, int]]:
    """Yield kinds of inputs that may be exact where whole numbers are not: name, inputs, error.

    The error is in units in the last place: the argument of exp may be a difference of products,
    and a fused multiply-add leaves the rounding error of one of them.
    """
    if workload.functions is None or workload.functions <= _EXACT:
        yield "powers of two", powers_of_two, 0
    functions = _SATURATING if workload.functions is None else workload.functions & _SATURATING
    if "exp" in functions:
        ranks = [len(spec.shape) for spec in workload.inputs if spec.is_float]
        for axis in reversed(range(max(ranks, default=0))):
            for shifted in (True, False):
                what = f"inputs whose exp is 0 or 1 along axis {axis}"
                yield what, saturated_along(axis, shifted), _ULPS_OF_EXP
    for size in (SATURATED, SATURATED / 8) if functions else ():  # bfloat16 has sums of the second
        yield f"inputs of {size:g} that saturate tanh, sigmoid and erf", saturated(size), 0


def _at_whole_numbers(workload: CheckSpec, reference: Reference) -> AnswerCheck | None:
    """Return the check on the largest whole numbers that are exact."""
    largest = 2 * max(1, math.isqrt(2 ** (_exact_bits(workload) - 1) // workload.precision.terms))
    while True:
        what = f"whole numbers up to {largest}"
        check = _exact_check(workload, reference, what, whole_numbers(largest))
        if check is not None or largest == 1:
            return check
        largest //= 2


def _at_parts(workload: CheckSpec, reference: Reference) -> list[AnswerCheck]:
    """Return checks on ones, each for a part of the terms: for sums that are too long as a whole.

    In each check all parts of the largest input but one are 0; so each term is in one check.
    """
    if workload.precision.terms < 2 ** _exact_bits(workload):
        return []
    parts = 2
    while parts <= _MAX_PARTS:
        found = [
            _exact_check(workload, reference, f"ones, part {n + 1} of {parts}", draw)
            for n, draw in enumerate(_parts_of_largest(workload, parts))
        ]
        if None not in found:
            return [check for check in found if check is not None]
        parts *= 2
    return []


def _parts_of_largest(workload: CheckSpec, parts: int) -> list[Draw]:
    """Return draws of ones, each with zeros in all but one part of the largest input."""
    largest = max(workload.inputs, key=lambda spec: math.prod(spec.shape))

    def draw(part: int, spec: InputSpec, rng: np.random.Generator) -> Array:
        return whole_numbers(1, part, parts if spec is largest else 1)(spec, rng)

    return [partial(draw, part) for part in range(parts)]


def _exact_check(
    workload: CheckSpec,
    reference: Reference,
    what: str,
    draw: Draw,
    bounded_by_magnitudes: bool = True,
) -> AnswerCheck | None:
    """Return the check on some inputs if every intermediate value is exact for them.

    Of sums of products of whole numbers the magnitudes add up to what the same function returns
    for magnitudes: if the accumulator has that number, it has all partial sums in any order. For
    these, and for the inputs, the reference must find the same whether it computes in the
    accumulator or more precisely.
    """
    inputs = workload.draw(draw, 2)
    if bounded_by_magnitudes and not _has_all_bits(workload, reference, inputs):
        return None
    wide = reference(inputs)
    narrow = reference(inputs, _narrow(workload)) if reference.takes_wide else wide
    pairs = zip(wide, narrow, rounded(wide, workload.outputs), strict=True)
    if not all(_is_exact(workload, reference, *three) for three in pairs):
        return None
    if _depends_on_rounding(workload, reference, inputs, wide):
        return None
    return _exact(workload, what, inputs, wide)


def _has_all_bits(workload: CheckSpec, reference: Reference, inputs: list[Array]) -> bool:
    """Whether all sums and products, in any order, are whole numbers that are exact.

    Three bits fewer may be used if the reference hides what it subtracts (`hides_terms`).
    """
    wide = reference.magnitudes(inputs)
    most = 2.0 ** (_exact_bits(workload) - (_HIDDEN_BITS if reference.hides_terms else 0))
    floats = [array for array in wide if is_floating(array) and array.size]
    if not all(max(array.max(), -array.min()) <= most for array in floats):
        return False
    if reference.hides_terms:
        return True
    narrow = reference.magnitudes(inputs, _narrow(workload))
    return all(map(np.array_equal, wide, narrow))


def _is_exact(
    workload: CheckSpec, reference: Reference, wide: Array, narrow: Array, found: Array
) -> bool:
    """Whether an output, computed in two types, shows that nothing was rounded."""
    if not is_floating(wide):
        return np.array_equal(wide, narrow)
    same = found.astype(wide.dtype) if reference.is_program else wide  # that rounds its outputs
    if not (np.array_equal(same, narrow) and np.isfinite(found).all()):
        return False
    if wide.size and max(wide.max(), -wide.min()) > 2.0 ** _exact_bits(workload):
        return False
    held = wide.astype(dtypes.numpy_dtype(_narrow(workload)))
    if not np.array_equal(held, wide):
        return False
    if not reference.takes_wide:
        return np.array_equal(np.rint(wide), wide)
    return not reference.is_program or bool(_whole_or_short(wide, _exact_bits(workload)).all())


def _whole_or_short(values: Array, bits: int) -> Array:
    """Return which numbers are whole, or have at most half of some bits.

    A program has the same constants in all types: 0.1 would look exact, but not sums of it.
    """
    scaled = np.frexp(values)[0] * 2.0 ** (bits // 2)
    return np.asarray((np.rint(values) == values) | (np.rint(scaled) == scaled))


def _depends_on_rounding(
    workload: CheckSpec, reference: Reference, inputs: list[Array], expected: list[Array]
) -> bool:
    """Whether integers and bools among the outputs change as soon as floats do, as in ties."""
    if all(map(dtypes.is_float, workload.outputs)):
        return False
    rng = np.random.default_rng([workload.seed, 3])
    found = reference(perturbed_inputs(inputs, CHANGE, rng, reference.takes_wide))
    pairs = zip(found, expected, strict=True)
    return any(bool((a != b).any()) for a, b in pairs if not is_floating(b))


def _has_large_arguments(workload: CheckSpec, reference: Reference, inputs: list[Array]) -> bool:
    """Whether answers are exp of such large numbers that rounding the numbers changes the answers.

    Products of large inputs are rounded unless their scale is a power of two, and a fused
    multiply-add rounds them otherwise: of differences that should be 0 much more than a unit is
    left.
    """
    if workload.functions is not None and "exp" not in workload.functions:
        return False
    epsilon, rng = workload.precision.epsilon, np.random.default_rng([workload.seed, 5])
    moved = reference(perturbed_inputs(inputs, epsilon, rng, reference.takes_wide))
    with np.errstate(all="ignore"):
        return any(
            bool((np.abs(now - right) > _LARGEST_ARGUMENT * epsilon * np.abs(right).max()).any())
            for now, right in zip(moved, reference(inputs), strict=True)
            if is_floating(right) and right.size
        )


def _narrow(workload: CheckSpec) -> str:
    """Return the type in which exact values must be exact: not more precise than float32."""
    intermediate = workload.precision.intermediate
    return "float32" if intermediate == "float64" else intermediate


def _exact_bits(workload: CheckSpec) -> int:
    """Return how many bits a whole number may have to be exact in that type."""
    return 1 - round(math.log2(dtypes.epsilon(_narrow(workload))))


def _exact(
    workload: CheckSpec, what: str, inputs: list[Array], expected: list[Array]
) -> AnswerCheck:
    allowed = [Allowance() for _ in expected]
    return AnswerCheck(what, inputs, rounded(expected, workload.outputs), allowed)


def _within(check: AnswerCheck, error: float) -> AnswerCheck:
    """Return a check that allows an error relative to the largest answer, before it is rounded."""
    allowed = []
    for array in check.expected:
        if not (error and is_floating(array)):
            allowed.append(Allowance())
            continue
        sizes = np.abs(array.astype(np.float64))
        last = (
            0.0 if dtypes.epsilon(array.dtype.name) <= error else dtypes.epsilon(array.dtype.name)
        )
        errors = error * sizes.max(initial=0.0) + last * sizes
        allowed.append(
            Allowance(errors if array.dtype.itemsize == 8 else errors.astype(np.float32))
        )
    return replace(check, allowed=allowed)
