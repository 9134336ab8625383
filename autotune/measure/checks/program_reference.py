"""The right answers of a template without a reference: its own program, without a schedule.

The program is compiled twice. The results in float64 are the right answers. The results in its own
types show how much rounding changes them, and are the right answers where rounding decides the
result, as in a comparison of floats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from autotune.ir import dtypes
from autotune.measure.checks.check_inputs import Array
from autotune.measure.checks.error_bounds import LARGEST_SHARE, least_normal, of_neighbours
from autotune.measure.checks.reference import WIDE, Function, Reference, as_type, is_floating
from autotune.runtime.signature import ArrayParameter

Program = TypeVar("Program")
Loaded = TypeVar("Loaded")


@dataclass(frozen=True)
class UnscheduledPrograms(Generic[Program]):
    """The program without a schedule, in two types: functions of inputs and outputs.

    own: in the types of the template.
    wide: with float64 in place of all narrower floats; None if there are none, if neither inputs
        nor outputs are floats, or if computed values decide which elements are read.
    single: with float32 in place of float64 where there is no narrower float.
    jumps: whether it compares floats or makes integers of them, so that rounding may change outputs
        by much.
    intermediate: the least precise type that it rounds to on the way to its outputs.
    """

    own: Program
    wide: Program | None = None
    single: Program | None = None
    jumps: bool = False
    intermediate: str | None = None

    def loaded(self, load: Callable[[Program], Loaded]) -> UnscheduledPrograms[Loaded]:
        """Return the programs, each loaded."""
        wide, single = (None if p is None else load(p) for p in (self.wide, self.single))
        return UnscheduledPrograms(load(self.own), wide, single, self.jumps, self.intermediate)


# Share of elements that may be off by more than `LARGEST_SHARE` of their scale.
_FEW = 1 / 64


class ProgramReference(Reference):
    """The right answers, computed by a program without a schedule.

    parameters: inputs and outputs of the workload, of fixed shapes.
    name: the template's name, for messages.
    """

    is_program = True

    def __init__(
        self,
        programs: UnscheduledPrograms[Callable[..., Any]],
        parameters: Sequence[ArrayParameter],
        name: str,
    ) -> None:
        self._programs, self._parameters = programs, parameters
        self._own = self._run_of(programs.own)
        self._wide = self._narrow = self._own
        if programs.wide is not None:
            self._wide = self._run_of(programs.wide, WIDE)
        elif programs.single is not None:
            self._narrow = self._run_of(programs.single, "float32")
        super().__init__(self._own, parameters, name)
        self.takes_wide = self._wide is not self._narrow
        self.jumps, self.intermediate = programs.jumps, programs.intermediate

    def __call__(self, inputs: Sequence[Array], dtype: str = WIDE) -> list[Array]:
        """Return the outputs: in float64, and for any other type in the program's own types.

        inputs: floats may be float64 in place of their types, but for its own types they are
            rounded to these.
        """
        if not self.takes_wide:
            return self._answers(self._own, inputs)
        if dtype != WIDE:
            return self._answers(self._narrow, inputs, is_right=False)
        return self._answers(self._wide, inputs)

    def is_precise(self, inputs: Sequence[Array], right: Sequence[Array]) -> bool:
        """Whether the program gives about the same in its own types, for all but a few elements.

        Else their rounding is a part of what it computes, as in a remainder of rounding, or their
        range is too small for these inputs.
        """
        if self._programs.wide is None or not self.takes_wide:
            return True
        outputs = [p.dtype for p in self._parameters if p.is_output]
        found = self._answers(self._narrow, inputs, is_right=False)
        return all(map(_is_close, found, right, outputs))

    def narrow(self, inputs: Sequence[Array], accumulator: str) -> tuple[list[Array], str]:
        """Return the outputs in the program's own types, or in float32 if all of these are float64.

        Second is the type that they stand for.
        """
        computed = accumulator if self._programs.single is None else "float32"
        return self._answers(self._narrow, inputs, is_right=False), computed

    def _run_of(self, program: Callable[..., Any], floats: str | None = None) -> Function:
        """Return a program as a function of inputs of any floats that returns its outputs.

        floats: the type of all its floats; None if it has those of the parameters.
        """

        def kind(parameter: ArrayParameter) -> str:
            return floats if floats and dtypes.is_float(parameter.dtype) else parameter.dtype

        inputs = [kind(p) for p in self._parameters if not p.is_output]
        outputs = [(p.fixed or (), kind(p)) for p in self._parameters if p.is_output]

        def run(*given: Array) -> list[Array]:
            found = [np.empty(shape, dtypes.numpy_dtype(dtype)) for shape, dtype in outputs]
            arrays = [
                as_type(array, dtype) if is_floating(array) else array
                for array, dtype in zip(given, inputs, strict=True)
            ]
            program(*arrays, *found)
            return found

        return run


def _is_close(found: Array, right: Array, dtype: str) -> bool:
    """Whether an output of the program's own types is about right, but for a few elements."""
    if not right.size:
        return True
    if not dtypes.is_float(dtype):
        return float((found != right).mean()) <= _FEW
    found, right = found.reshape(-1), right.reshape(-1)
    with np.errstate(all="ignore"):
        if (np.isfinite(found) != np.isfinite(as_type(right, dtype))).any():
            return False
        off = np.nan_to_num(np.abs(found - right), nan=0.0, posinf=0.0)
        off -= dtypes.least_positive(dtype) + least_normal(dtypes.accumulator(dtype))
        far = off > LARGEST_SHARE * np.abs(right)
        if far.mean() > _FEW:
            far &= off > LARGEST_SHARE * of_neighbours(np.abs(right))
        return float(far.mean()) <= _FEW
