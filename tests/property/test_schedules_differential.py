"""Random programs under random schedules: NumPy = interpreter = LLVM, verified after every pass.

AUTOTUNE_EXAMPLES=5000 runs more examples, with other seeds each time.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from hypothesis import HealthCheck, assume, event, given, note, settings
from hypothesis import strategies as st
from support.te_programs import Program, programs, symbolic_programs
from support.te_reference import TOLERANCE, Reference, close, random_array
from support.te_schedules import Scheduled, scheduled
from support.verify import verify

from autotune.errors import LoweringError
from autotune.ir.evaluate.interpreter import interpret
from autotune.ir.expr import SizeVar
from autotune.ir.stmt import For, LoopKind, PrimFunc
from autotune.ir.visitor import walk
from autotune.lowering.finalise import analyse, finalising
from autotune.lowering.gpu.finalise_kernels import finalising_kernels
from autotune.lowering.nest.lower_schedule import lower_schedule
from autotune.runtime.cpu.llvm_compiler import compile_function
from autotune.runtime.object_cache import ObjectCache
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


def passes(plan: Scheduled, tensors: list[Tensor]) -> tuple[PrimFunc, PrimFunc]:
    """Return the analysed and the finalised function, each form in between verified."""
    try:
        lowered = verify(lower_schedule(plan.schedule, tensors), allow_knobs=True)
    except LoweringError as refusal:
        # What stages attached meanwhile read is seen only when the whole schedule is known.
        assume("is double-buffered in loop" not in str(refusal))
        raise
    note(f"lowered:\n{lowered}")
    analysed = verify(analyse(lowered, plan.knobs))
    note(f"analysed:\n{analysed}")
    for final in finalising(analysed):
        verify(final)
    note(f"final:\n{final}")
    return analysed, final


def as_kernels(analysed: PrimFunc) -> PrimFunc | None:
    """Return the form for GPUs, each form in between verified; None without threads, or refused."""
    if not any(isinstance(s, For) and s.kind is LoopKind.THREAD for s in walk(analysed.body)):
        return None
    try:
        *_, kernels = map(verify, finalising_kernels(analysed))
    except LoweringError as refusal:
        event(re.sub(r"'.*?'", "...", str(refusal)))
        return None
    note(f"kernels:\n{kernels}")
    return kernels


class Run:
    """A scheduled program, lowered, and compiled if wanted, to be run on inputs of some sizes."""

    def __init__(self, program: Program, plan: Scheduled, backend: bool) -> None:
        note(program.describe())
        note(plan.describe())
        self.program = program
        every = [*program.inputs, *program.stages]
        # What is stored in a wide type may be a sum in a narrower one.
        self.tolerance = max((TOLERANCE.get(t.dtype, 0.0) for t in every), default=0.0)
        analysed, final = passes(plan, [*program.inputs, *program.outputs])
        self.ways: dict[str, Any] = {
            "interpreted before finalising": lambda *a: interpret(analysed, a),
            "interpreted after finalising": lambda *a: interpret(final, a),
        }
        if backend:
            self.ways["compiled"] = compile_function(final, cache=MEMORY_ONLY)
        kernels = as_kernels(analysed)
        if kernels is not None:
            self.ways["threads side by side"] = lambda *a: interpret(kernels, a, races=True)

    def check(self, sizes: Mapping[SizeVar, int]) -> None:
        program, rng = self.program, np.random.default_rng(0)
        shapes = Reference({}, sizes)
        arrays = {
            t: random_array(rng, [shapes.size(e) for e in t.extents], t.dtype)
            for t in program.inputs
        }
        with np.errstate(all="ignore"):
            reference = Reference(arrays, sizes)
            expected = [reference.array(t) for t in program.outputs]
        for how, run in self.ways.items():
            results = [np.full(e.shape, 77, e.dtype) for e in expected]
            run(*(arrays[t].copy() for t in program.inputs), *results)
            for tensor, got, want in zip(program.outputs, results, expected, strict=True):
                if not close(got, want, self.tolerance):
                    where = f"{tensor.name} at sizes {list(sizes.values())}"
                    raise AssertionError(f"{how}: {where} is\n{got}\ninstead of\n{want}")


@examples(16)
@given(st.data())
def test_a_schedule_computes_what_numpy_computes_and_so_does_the_compiled_code(data: Any) -> None:
    program = data.draw(programs())
    Run(program, data.draw(scheduled(program)), backend=True).check({})


@examples(40)
@given(st.data())
def test_a_schedule_does_not_change_what_is_computed(data: Any) -> None:
    program = data.draw(programs())
    Run(program, data.draw(scheduled(program, threads=True)), backend=False).check({})


@examples(8)
@given(st.data())
def test_a_schedule_of_symbolic_sizes_is_right_at_every_size(data: Any) -> None:
    program, sizes = data.draw(symbolic_programs())
    run = Run(program, data.draw(scheduled(program)), backend=True)
    for values in ((1, 1), (3, 5), (8, 4), (7, 1), (0, 3), (2, 9), (4, 0)):
        run.check(dict(zip(sizes, values, strict=True)))
