"""The checks that each candidate must pass: inputs, right answers and allowed errors.

*Exact* checks come first. On their inputs every intermediate value is exact in any order of
evaluation, so the answer must be equal. The last one is the *rounding* check on realistic inputs;
candidates are timed on these.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from autotune.errors import UsageError
from autotune.ir import dtypes
from autotune.measure.checks.check_inputs import (
    SATURATED,
    Array,
    Draw,
    Given,
    InputSpec,
    MagnitudeRange,
    draw_all,
    given_inputs,
    largest_integers,
    powers_of_two,
    realistic,
    saturated,
    saturated_along,
    whole_numbers,
    whole_range,
)
from autotune.measure.checks.error_bounds import (
    CHANGE,
    Allowance,
    Precision,
    allowances,
    is_elementwise,
    perturbed_inputs,
)
from autotune.measure.checks.reference import Reference, is_floating

# Magnitudes of realistic inputs. The first ones with tight bounds are taken.
_RANGES = (
    MagnitudeRange(),
    MagnitudeRange(huge=False),
    *(
        MagnitudeRange(tiny=False, huge=False, scale=scale)
        for scale in (1.0, 1 / 2, 1 / 4, 1 / 16, 1 / 64)
    ),
)

# Whether inputs have zeros and negative values; the first pair without NaN in the answers is used.
_SIGNS = ((True, True), (False, True), (False, False))

# Most exact checks that a long sum is divided into, where it cannot be exact as a whole.
_MAX_PARTS = 8

# How often inputs are changed for the bounds, by the largest number of operations.
_SAMPLES = ((10**8, 6), (10**9, 4))
_MIN_SAMPLES = 2

_PER_ELEMENT = 64  # Operations that an element of an argument counts as in that.

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

# Says of expected and found outputs whether these are right: True, False, or what is wrong.
Accept = Callable[[Sequence[Array], Sequence[Array]], bool | str]


@dataclass(frozen=True)
class AnswerCheck:
    """One check of a candidate: the inputs, the right outputs and the allowed errors."""

    what: str  # The inputs in a few words, for messages, such as "whole numbers up to 64".
    inputs: list[Array]  # C-contiguous, of the parameters' types.
    # The right outputs; none if there is no reference.
    expected: list[Array] = field(default_factory=list)
    # What error the elements of each output may have; none if there is no right output.
    allowed: list[Allowance] = field(default_factory=list)
    accept: Accept | None = None  # Says which answers are right, in place of allowed errors.


@dataclass(frozen=True)
class CheckSpec:
    """The parts of a workload that its checks are made from."""

    inputs: Sequence[InputSpec]
    outputs: Sequence[str]  # Types of the outputs.
    elements: int = 0  # Elements of all inputs and outputs.
    # Float types that the template declares sums and other intermediate values to have. By default
    # float32 for half types, and the type itself otherwise; but what computes half types element by
    # element may round each intermediate value to them.
    accumulator: str | None = None
    intermediate: str | None = None
    is_declared: bool = True  # Whether the template itself declares `intermediate`.
    terms: int = 1  # Terms of the longest sum.
    work: float = 0.0  # Operations of one run; references of large workloads are called less often.
    # Names of the functions that it applies, None if they are not known. Only the choice of inputs
    # depends on them, never the right answers.
    functions: frozenset[str] | None = None
    given: Given | None = None  # Draws realistic inputs, if the template does so itself.
    seed: int = 0

    @property
    def precision(self) -> Precision:
        """The assumed precision of candidates."""
        work = self.work + _PER_ELEMENT * self.elements
        samples = next((n for most, n in _SAMPLES if work <= most), _MIN_SAMPLES)
        wide = max(map(dtypes.accumulator, self.floats), key=dtypes.epsilon, default="float32")
        accumulator = self.accumulator or wide
        intermediate = max(accumulator, self.intermediate or accumulator, key=dtypes.epsilon)
        terms = max(1, self.terms)
        return Precision(accumulator, intermediate, self.is_declared, terms, samples)

    @property
    def floats(self) -> list[str]:
        """Types of inputs and outputs that are floats."""
        types = [*(spec.dtype for spec in self.inputs), *self.outputs]
        return [dtype for dtype in types if dtypes.is_float(dtype)]

    def draw(self, draw: Draw, number: int) -> list[Array]:
        """Return all inputs; integers that the template draws itself stay as they are."""
        made = draw_all(self.inputs, draw, (self.seed, number))
        if self.given is None:
            return made
        own = given_inputs(self.given, self.inputs, (self.seed, number))
        return [
            array if spec.is_float else kept
            for spec, array, kept in zip(self.inputs, made, own, strict=True)
        ]


def answer_checks(
    workload: CheckSpec, reference: Reference | None, accept: Accept | None = None
) -> list[AnswerCheck]:
    """Return the checks of a workload's candidates, exact ones first.

    reference: computes the right outputs. Without one there is a single check, on realistic inputs.
    accept: says which answers are right; then there is a single check, too.

    UsageError if the reference fails, does not fit the outputs, or says NaN everywhere.
    """
    if reference is None:
        made = _inputs_of_template(workload) or workload.draw(realistic(), 0)
        return [AnswerCheck("realistic inputs", made)]
    if accept is not None:
        inputs, expected = next(_realistic_inputs(workload, reference))
        right = _rounded(expected, workload.outputs)
        free = [Allowance(math.inf) for _ in right]
        return [AnswerCheck("realistic inputs", inputs, right, free, accept)]
    known = _with_intermediate(workload, reference)
    rounding = _rounding_check(known, reference)
    if rounding is None:
        return answer_checks(workload, reference.in_own_types())
    return [*_exact_checks(known, reference), rounding]


def _with_intermediate(workload: CheckSpec, reference: Reference) -> CheckSpec:
    """Return a workload that says whether intermediate values may be rounded to a half type."""
    if workload.accumulator or workload.intermediate:
        return workload
    if reference.is_program and reference.takes_wide:
        return replace(workload, intermediate=reference.intermediate, is_declared=False)
    halves = [dtype for dtype in workload.floats if dtypes.is_half(dtype)]
    if not halves:
        return workload
    rng = np.random.default_rng([workload.seed, 4])
    made = next(_realistic_inputs(workload, reference), None)
    if made is None or not is_elementwise(reference, *made, rng):
        return workload
    widest = max(halves, key=dtypes.epsilon)
    return replace(workload, intermediate=widest, is_declared=False)


def _inputs_of_template(workload: CheckSpec) -> list[Array] | None:
    """Return the realistic inputs that the template draws itself, None if it draws none."""
    if workload.given is None:
        return None
    return given_inputs(workload.given, workload.inputs, (workload.seed, 0))


# -- rounding ------------------------------------------------------------------------------


def _rounding_check(workload: CheckSpec, reference: Reference) -> AnswerCheck | None:
    """Return a check on realistic inputs with finite answers and tight bounds.

    Without such inputs, return the last check with finite answers, or else the first one; None if
    the reference is precise for no inputs.
    """
    found: AnswerCheck | None = None
    for inputs, expected in _realistic_inputs(workload, reference):
        rounded = _rounded(expected, workload.outputs)
        finite = all(bool(np.isfinite(array).all()) for array in rounded)
        if finite or found is None:
            check = _bounded(workload, reference, inputs, expected)
            if finite and all(allowed.is_tight for allowed in check.allowed):
                return check
            found = check
    return found


def _realistic_inputs(
    workload: CheckSpec, reference: Reference
) -> Iterator[tuple[list[Array], list[Array]]]:
    """Yield realistic inputs and the right outputs for them: first the most varied inputs.

    Where an output is NaN, zeros and then negative values are left out before all other changes.
    Inputs for which the reference is not precise are passed over.
    """
    given = _inputs_of_template(workload)
    if given is not None:
        expected = reference(given)
        reference.refuse_nan(expected)
        if reference.is_precise(given, expected):
            yield given, expected
        return
    tries = [(signs, range_) for signs in _SIGNS for range_ in _RANGES]
    only_nan: UsageError | None = None
    yielded = False
    while tries:
        (zeros, signed), range_ = tries.pop(0)
        inputs = workload.draw(realistic(zeros, signed, range_), 0)
        expected = reference(inputs)
        try:
            reference.refuse_nan(expected)
        except UsageError as error:
            only_nan = only_nan or error
        else:
            yielded = True
            if reference.is_precise(inputs, expected):
                yield inputs, expected
        if any(bool(np.isnan(array).any()) for array in expected if is_floating(array)):
            tries.sort(key=lambda left: left[0] == (zeros, signed))
    if not yielded and only_nan is not None:
        raise only_nan


def _bounded(
    workload: CheckSpec, reference: Reference, inputs: list[Array], expected: list[Array]
) -> AnswerCheck:
    rng = np.random.default_rng([workload.seed, 1])
    types, precision = workload.outputs, workload.precision
    allowed = allowances(reference, inputs, expected, types, precision, rng)
    return AnswerCheck("realistic inputs", inputs, _rounded(expected, types), allowed)


# -- exact ---------------------------------------------------------------------------------


def _exact_checks(workload: CheckSpec, reference: Reference) -> list[AnswerCheck]:
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
    pairs = zip(wide, narrow, _rounded(wide, workload.outputs), strict=True)
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
    workload: CheckSpec, reference: Reference, wide: Array, narrow: Array, rounded: Array
) -> bool:
    """Whether an output, computed in two types, shows that nothing was rounded."""
    if not is_floating(wide):
        return np.array_equal(wide, narrow)
    same = rounded.astype(wide.dtype) if reference.is_program else wide  # that rounds its outputs
    if not (np.array_equal(same, narrow) and np.isfinite(rounded).all()):
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
    return AnswerCheck(what, inputs, _rounded(expected, workload.outputs), allowed)


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


def _rounded(precise: Sequence[Array], types: Sequence[str]) -> list[Array]:
    """Return answers in the outputs' types."""
    with np.errstate(all="ignore"):
        return [
            np.asarray(array, dtypes.numpy_dtype(dtype), order="C")
            for array, dtype in zip(precise, types, strict=True)
        ]
