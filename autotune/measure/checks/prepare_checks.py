"""Makes the checks of a workload's candidates from the description that a runner gets."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from autotune.measure.candidate import WorkloadDescription
from autotune.measure.checks.check_cases import answer_checks
from autotune.measure.checks.check_inputs import Given, InputSpec
from autotune.measure.checks.check_spec import Accept, AnswerCheck, CheckSpec
from autotune.measure.checks.input_uses import InputUse
from autotune.measure.checks.program_reference import ProgramReference, UnscheduledPrograms
from autotune.measure.checks.reference import Function, Reference


@dataclass(frozen=True)
class Prepared:
    """The checks of a workload's candidates."""

    # What answers are checked with: "given" by the template, "unscheduled" program, or "none".
    reference: str
    # Exact ones first; candidates are timed on the inputs of the last one.
    checks: list[AnswerCheck]
    words: list[str]  # how precise answers must be, a line for each output


def prepare(
    subject: WorkloadDescription,
    reference: Function | None,
    unscheduled: UnscheduledPrograms[Callable[..., Any]] | None,
    given: Given | None,
    seed: int,
    accept: Accept | None = None,
) -> Prepared:
    """Return the checks of a workload's candidates.

    reference: the template's, a function of the input arrays.
    unscheduled: the program without a schedule; asked where there is no reference.
    given: draws realistic inputs, if the template does so itself.
    accept: the template's own check of answers, if it has one.

    UsageError if the reference fails, or does not fit the outputs.
    """
    who, function = _reference(subject, reference, unscheduled, accept is not None)
    found = answer_checks(_workload(subject, given, seed), function, accept)
    return Prepared(who, found, _words(subject, found))


def _reference(
    subject: WorkloadDescription,
    reference: Function | None,
    unscheduled: UnscheduledPrograms[Callable[..., Any]] | None,
    only_own_types: bool,
) -> tuple[str, Reference | None]:
    parameters, name = subject.signature.parameters, subject.signature.name
    if reference is not None:
        return "given", Reference(reference, parameters, name, only_own_types)
    if unscheduled is None:
        return "none", None
    found = ProgramReference(unscheduled, parameters, name)
    return "unscheduled", found.in_own_types() if only_own_types else found


def _workload(subject: WorkloadDescription, given: Given | None, seed: int) -> CheckSpec:
    parameters = subject.signature.parameters
    inputs = [p for p in parameters if not p.is_output]
    uses = subject.uses or (InputUse(),) * len(inputs)
    return CheckSpec(
        inputs=[InputSpec(p.fixed or (), p.dtype, u) for p, u in zip(inputs, uses, strict=True)],
        outputs=[p.dtype for p in parameters if p.is_output],
        elements=sum(math.prod(p.fixed or ()) for p in parameters),
        accumulator=subject.accumulator,
        intermediate=subject.intermediate,
        terms=subject.terms,
        work=subject.work,
        functions=subject.functions,
        given=given,
        seed=seed,
    )


def _words(subject: WorkloadDescription, found: Sequence[AnswerCheck]) -> list[str]:
    names = [p.name for p in subject.signature.parameters if p.is_output]
    if found[-1].accept is not None:
        return [f"{name} must be as the template says with accept=" for name in names]
    exact = ", ".join(check.what for check in found[:-1])
    equal = f"must be equal at {exact}; " if exact else "cannot be compared exactly; "
    return [
        f"{name} {equal}at {found[-1].what} an element may typically be off by "
        f"{allowed.share:.2g} of itself"
        for name, allowed in zip(names, found[-1].allowed, strict=False)
    ]
