"""The checks that each candidate must pass: inputs, right answers and allowed errors.

*Exact* checks come first. On their inputs every intermediate value is exact in any order of
evaluation, so the answer must be equal. The last one is the *rounding* check on realistic inputs;
candidates are timed on these.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from autotune.errors import UsageError
from autotune.ir import dtypes
from autotune.measure.checks.check_inputs import Array, MagnitudeRange, given_inputs, realistic
from autotune.measure.checks.check_spec import Accept, AnswerCheck, CheckSpec, rounded
from autotune.measure.checks.error_bounds import Allowance, allowances, is_elementwise
from autotune.measure.checks.exact_checks import exact_checks
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
        right = rounded(expected, workload.outputs)
        free = [Allowance(math.inf) for _ in right]
        return [AnswerCheck("realistic inputs", inputs, right, free, accept)]
    known = _with_intermediate(workload, reference)
    rounding = _rounding_check(known, reference)
    if rounding is None:
        return answer_checks(workload, reference.in_own_types())
    return [*exact_checks(known, reference), rounding]


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


def _rounding_check(workload: CheckSpec, reference: Reference) -> AnswerCheck | None:
    """Return a check on realistic inputs with finite answers and tight bounds.

    Without such inputs, return the last check with finite answers, or else the first one; None if
    the reference is precise for no inputs.
    """
    found: AnswerCheck | None = None
    for inputs, expected in _realistic_inputs(workload, reference):
        right = rounded(expected, workload.outputs)
        finite = all(bool(np.isfinite(array).all()) for array in right)
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
    return AnswerCheck("realistic inputs", inputs, rounded(expected, types), allowed)
