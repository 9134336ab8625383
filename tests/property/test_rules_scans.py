"""Random scans through the schedule rules, with random knobs, compute what loops in NumPy do.

AUTOTUNE_EXAMPLES=3000 runs more examples, with other seeds each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import assume, given, note
from hypothesis import strategies as st
from support.random_scans import random_scans
from support.verify import verify
from test_schedules_differential import MEMORY_ONLY, examples

from autotune import rules, te
from autotune.lowering.finalise import analyse, finalising
from autotune.lowering.nest.lower_schedule import lower_schedule
from autotune.rules.apply_rules import scheduled_outputs
from autotune.runtime.cpu.llvm_compiler import compile_function
from autotune.target import Target


class DrawnKnobs:
    """Chooses a value of each knob at random; a knob that is defined again keeps its value."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.target = Target("llvm")
        self.chosen: dict[str, Any] = {}

    def define_knob(self, name: str, values: Sequence[Any], default: Any = None) -> Any:
        """Return the drawn value."""
        assert default is None or default in values
        if name not in self.chosen:
            self.chosen[name] = self.draw(st.sampled_from(list(values)))
        return self.chosen[name]

    def add_constraint(self, condition: Any, message: str) -> None:
        """Give the example up if it breaks a constraint."""
        del message
        assume(condition)


@examples(20)
@given(data=st.data())
def test_a_random_scan_through_the_rules_is_the_loop_in_numpy(data: st.DataObject) -> None:
    case = data.draw(random_scans())
    assume(not case.symbolic)
    note("\n".join(case.description))
    x = case.input()
    wanted = case.reference(x)
    outputs = list(case.scans)
    if data.draw(st.booleans()):
        back = data.draw(st.integers(1, case.sizes[0]))
        S, at = case.scans[0], case.sizes[0] - back
        outputs = [te.compute(S.shape[1:], lambda i: S[at, i] * 3, name="Y")]
        wanted = [wanted[0][at] * 3]
    knobs = DrawnKnobs(data.draw)
    schedule = rules.schedule(knobs, outputs)
    note(str(knobs.chosen))
    tensors = [case.X, *scheduled_outputs(schedule, outputs)]
    analysed = verify(analyse(lower_schedule(schedule, tensors)))
    for final in finalising(analysed):
        verify(final)
    note(f"final:\n{final}")
    got = [np.full_like(values, 77) for values in wanted]
    compile_function(final, cache=MEMORY_ONLY)(x, *got)
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(a, b)
