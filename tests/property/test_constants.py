"""Random programs of which some inputs are constant compute the same in two functions."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import event, given, note
from hypothesis import strategies as st
from support.te_programs import programs
from support.te_reference import random_array
from support.te_schedules import scheduled
from support.verify import verify
from test_schedules_differential import examples

from autotune.ir.evaluate.interpreter import interpret
from autotune.ir.stmt import PrimFunc
from autotune.lowering.finalise import analyse, finalise
from autotune.lowering.lift_constants import lift_constants
from autotune.lowering.nest.lower_schedule import lower_schedule


def empty(function: PrimFunc) -> list[Any]:
    """Return arrays for the outputs of a function, full of what nobody may read."""
    shapes = [(tuple(int(e.value) for e in p.shape), p.dtype) for p in function.params  # type: ignore[attr-defined]
              if p in function.outputs]  # fmt: skip
    return [np.full(shape, 77, dtype) for shape, dtype in shapes]


@examples(40)
@given(st.data())
def test_constants_prepared_once_change_no_result(data: st.DataObject) -> None:
    program = data.draw(programs())
    plan = data.draw(scheduled(program))
    note(program.describe())
    note(plan.describe())
    tensors = [*program.inputs, *program.outputs]
    whole = analyse(lower_schedule(plan.schedule, tensors), plan.knobs)
    constants = [
        n for n in range(len(program.inputs)) if data.draw(st.sampled_from([True, True, False]))
    ]
    split = lift_constants(whole, constants)
    event("prepared" if split.prepare else "kept" if split.kept else "unused")
    rng = np.random.default_rng(0)
    inputs = [random_array(rng, t.shape, t.dtype) for t in program.inputs]
    expected, found = empty(whole), empty(whole)
    interpret(whole, [*inputs, *expected])
    made: list[Any] = []
    if split.prepare is not None:
        made = empty(split.prepare)
        own = verify(finalise(verify(split.prepare)))
        interpret(own, [*(inputs[n] for n in constants), *made])
    others = [array for n, array in enumerate(inputs) if n not in constants]
    main = verify(finalise(verify(split.main)))
    interpret(main, [*others, *found, *(inputs[n] for n in split.kept), *made])
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_array_equal(a, b)
