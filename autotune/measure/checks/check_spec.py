"""What the checks of a workload are made from, and one check, as plain data.

In: inputs and outputs of a workload, the types of its sums, and its operations. Out: inputs drawn
at random, and the precision that candidates are assumed to have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from autotune.ir import dtypes
from autotune.measure.checks.check_inputs import (
    Array,
    Draw,
    Given,
    InputSpec,
    draw_all,
    given_inputs,
)
from autotune.measure.checks.error_bounds import Allowance, Precision
from autotune.measure.checks.reference import as_type

# How often inputs are changed for the bounds, by the largest number of operations.
_SAMPLES = ((10**8, 6), (10**9, 4))
_MIN_SAMPLES = 2

_PER_ELEMENT = 64  # Operations that an element of an argument counts as in that.

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


def rounded(precise: Sequence[Array], types: Sequence[str]) -> list[Array]:
    """Return answers in the outputs' types."""
    return [as_type(array, dtype) for array, dtype in zip(precise, types, strict=True)]
