"""Random scans under random schedules compute what loops in NumPy do; so do their threads.

AUTOTUNE_EXAMPLES=3000 runs more examples, with other seeds each time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import assume, given, note
from hypothesis import strategies as st
from support.random_scans import RandomScan, random_scans
from support.scan_schedules import columns_to_threads, scheduled
from support.verify import verify
from test_schedules_differential import MEMORY_ONLY, examples

from autotune import te
from autotune.errors import LoweringError
from autotune.ir.evaluate.interpreter import interpret
from autotune.lowering.finalise import analyse, finalise, finalising
from autotune.lowering.gpu.finalise_kernels import finalise_kernels, finalising_kernels
from autotune.lowering.nest.lower_schedule import lower_schedule
from autotune.runtime.cpu.llvm_compiler import compile_function


def assert_computes(case: RandomScan, runs: Sequence[Callable[..., Any]]) -> None:
    """Run the scan in several ways and compare with the loop in NumPy."""
    x = case.input()
    want = case.reference(x)
    for run in runs:
        got = [np.full_like(values, 77) for values in want]
        run(x, *got)
        for a, b in zip(got, want, strict=True):
            np.testing.assert_array_equal(a, b)


@examples(12)
@given(data=st.data())
def test_a_random_scan_is_the_loop_in_numpy(data: st.DataObject) -> None:
    case = data.draw(random_scans())
    note("\n".join(case.description))
    plan = data.draw(scheduled(case))
    note(plan.describe())
    tensors, strided = [case.X, *case.scans], data.draw(st.booleans())
    lowered = verify(lower_schedule(plan.schedule, tensors, strided=strided), allow_knobs=True)
    analysed = verify(analyse(lowered, plan.knobs))
    note(f"analysed:\n{analysed}")
    for final in finalising(analysed):
        verify(final)
    note(f"final:\n{final}")
    compiled = compile_function(final, cache=MEMORY_ONLY)
    assert_computes(
        case, [lambda *a: interpret(analysed, a), lambda *a: interpret(final, a), compiled]
    )


@examples(12)
@given(data=st.data())
def test_threads_that_share_a_random_scan_do_not_race(data: st.DataObject) -> None:
    case = data.draw(random_scans())
    note("\n".join(case.description))
    s = te.create_schedule(case.scans[0].op)
    for tensor in case.inner:
        if not tensor.op.reduce_axis and data.draw(st.booleans()):
            s[tensor].compute_inline()
    blocks = columns_to_threads(data.draw, case, s)
    note(str(s))
    lowered = verify(analyse(lower_schedule(s, [case.X, *case.scans])))
    try:
        *_, final = map(verify, finalising_kernels(lowered))
    except LoweringError as refusal:
        # Of other arrays than states, columns are not told apart if their number is not known.
        shared = "blocks share elements of" if case.symbolic and not case.mixes else "blocks share"
        if blocks and (case.mixes or case.symbolic) and str(refusal).startswith(shared):
            return
        raise
    note(f"final:\n{final}")
    on_cpu = compile_function(final, "cuda -on=cpu", cache=MEMORY_ONLY)
    assert_computes(case, [lambda *a: interpret(final, a, races=True), on_cpu])


@examples(12)
@given(data=st.data())
def test_a_random_scan_is_computed_in_the_loop_of_its_reader(data: st.DataObject) -> None:
    case = data.draw(random_scans())
    note("\n".join(case.description))
    # The width of the second state would be a size that no call gives.
    assume(not case.symbolic or len(case.sizes) == 2)
    one, two = case.scans[0], case.scans[-1]
    out = te.compute(
        one.extents,
        lambda t, i: (one[t, i] + two[t, i % two.extents[1]] + i).astype("int64"),
        name="out",
    )
    s = te.create_schedule(out.op)
    outer, inner = s[out].split(out.op.axis[1], factor=data.draw(st.sampled_from([1, 2, 4])))
    s[out].reorder(outer, out.op.axis[0], inner)
    s[case.scans[0]].compute_at(s[out], outer)
    # Local arrays of a size that only a call knows are refused, as everywhere.
    threads = not case.symbolic and data.draw(st.booleans())
    if threads:
        s[out].bind(outer, te.thread_axis("threadIdx.x"))
    else:
        for part in (*case.inits, *case.updates, *case.inner):
            s[part].vectorize(part.op.axis[1])
    note(str(s))
    analysed = verify(analyse(lower_schedule(s, [case.X, out])))
    final = verify((finalise_kernels if threads else finalise)(analysed))
    x = case.input()
    states = case.reference(x)
    first, last = states[0], states[-1]
    columns = np.arange(first.shape[1])
    with np.errstate(over="ignore"):
        want = (first + last[:, columns % last.shape[1]] + columns).astype("int64")
    target = "cuda -on=cpu" if threads else "llvm"
    compiled = compile_function(final, target, cache=MEMORY_ONLY)
    for run in (lambda *a: interpret(final, a, races=True), compiled):
        got = np.full_like(want, 77)
        run(x, got)
        np.testing.assert_array_equal(got, want)
