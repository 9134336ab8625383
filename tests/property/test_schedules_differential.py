"""Random programs under random schedules: NumPy = interpreter = LLVM, verified after every pass.

AUTOTUNE_EXAMPLES=5000 runs more examples, with other seeds each time.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from te_programs import Program, programs
from te_reference import Reference, random_array
from te_schedules import Scheduled, scheduled

from autotune.ir.interpreter import interpret
from autotune.ir.stmt import Function
from autotune.ir.verify import verify
from autotune.lowering.finalise import analyse, finalise, listing
from autotune.lowering.hoist import hoist_guards
from autotune.lowering.nest import lower_schedule
from autotune.runtime.cache import ObjectCache
from autotune.runtime.llvm import compile_function
from autotune.te.tensor import Tensor

EXAMPLES = int(os.environ.get("AUTOTUNE_EXAMPLES", "0"))
MEMORY_ONLY = ObjectCache(None)


def examples(count: int) -> Any:
    return settings(
        max_examples=EXAMPLES or count,
        derandomize=not EXAMPLES,
        deadline=None,
        database=None,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
    )


def passes(plan: Scheduled, tensors: list[Tensor]) -> tuple[Function, Function]:
    """Return the analysed and the finalised function, each form in between verified."""
    lowered = verify(lower_schedule(plan.schedule, tensors), allow_knobs=True)
    note(f"lowered:\n{lowered}")
    analysed = verify(analyse(lowered, plan.knobs))
    note(f"analysed:\n{analysed}")
    verify(hoist_guards(verify(listing(analysed))))
    final = verify(finalise(analysed))
    note(f"final:\n{final}")
    return analysed, final


def poisoned(shape: tuple[int, ...], dtype: str) -> Any:
    return np.full(shape, 77, dtype)


def close(got: Any, want: Any) -> bool:
    """Equal integers; floats that differ by rounding, as sums in another order do."""
    if want.dtype.kind != "f":
        return np.array_equal(got, want)
    tolerance = 1e-5 if want.dtype == np.float32 else 1e-12
    scale = np.max(np.abs(want), initial=1.0, where=np.isfinite(want))
    return np.allclose(got, want, rtol=tolerance, atol=tolerance * scale, equal_nan=True)


def check(program: Program, plan: Scheduled, backend: bool) -> None:
    note(program.describe())
    note(plan.describe())
    rng = np.random.default_rng(0)
    arrays = {t: random_array(rng, t.shape, t.dtype) for t in program.inputs}
    with np.errstate(all="ignore"):
        reference = Reference(arrays)
        expected = [reference.array(t) for t in program.outputs]
    analysed, final = passes(plan, [*program.inputs, *program.outputs])

    def compare(what: str, run: Any) -> None:
        results = [poisoned(e.shape, e.dtype) for e in expected]
        run(*(arrays[t].copy() for t in program.inputs), *results)
        for tensor, got, want in zip(program.outputs, results, expected, strict=True):
            if not close(got, want):
                raise AssertionError(f"{what}: {tensor.name} is\n{got}\ninstead of\n{want}")

    compare("interpreted before finalising", lambda *a: interpret(analysed, a))
    compare("interpreted after finalising", lambda *a: interpret(final, a))
    if backend:
        compare("compiled", compile_function(final, cache=MEMORY_ONLY))


@examples(150)
@given(st.data())
def test_a_schedule_computes_what_numpy_computes_and_so_does_the_compiled_code(data: Any) -> None:
    program = data.draw(programs())
    check(program, data.draw(scheduled(program)), backend=True)


@examples(400)
@given(st.data())
def test_a_schedule_does_not_change_what_is_computed(data: Any) -> None:
    program = data.draw(programs())
    check(program, data.draw(scheduled(program)), backend=False)
