"""Random scans under random schedules compute what loops in NumPy do; so do their threads."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from random_scans import random_scans, scheduled

from autotune import te
from autotune.errors import LoweringError
from autotune.ir.interpreter import interpret
from autotune.ir.verify import verify
from autotune.lowering.finalise import analyse, finalise
from autotune.lowering.kernels import finalise_kernels
from autotune.lowering.nest import lower_schedule
from autotune.runtime.cache import ObjectCache
from autotune.runtime.llvm import compile_function

EXAMPLES = int(os.environ.get("AUTOTUNE_EXAMPLES", "20"))
SLOW = settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck)
)


def whole(m: int, n: int) -> Any:
    return np.random.default_rng(m * 100 + n).integers(-9, 9, (m, n)).astype("int32")


@SLOW
@given(data=st.data())
def test_a_random_scan_is_the_loop_in_numpy(data: st.DataObject) -> None:
    case = data.draw(random_scans())
    s = scheduled(data.draw, case)
    note("\n".join([*case.description, str(s)]))
    strided = data.draw(st.booleans())
    analysed = verify(analyse(lower_schedule(s, [case.X, *case.scans], strided=strided)))
    final = verify(finalise(analysed))
    x = whole(*case.sizes)
    want = case.reference(x)
    compiled = compile_function(final, cache=ObjectCache(None))
    for run in (lambda *a: interpret(analysed, a), lambda *a: interpret(final, a), compiled):
        got = [np.full_like(x, 77) for _ in want]
        run(x, *got)
        for a, b in zip(got, want, strict=True):
            np.testing.assert_array_equal(a, b)


@SLOW
@given(data=st.data())
def test_threads_that_share_a_random_scan_do_not_race(data: st.DataObject) -> None:
    case = data.draw(random_scans())
    note("\n".join(case.description))
    s = te.create_schedule(case.scans[0].op)
    blocks = data.draw(st.booleans())
    for part in (*case.inits, *case.updates):
        outer, inner = s[part].split(part.op.axis[1], factor=4)
        s[part].bind(inner, te.thread_axis("threadIdx.x"))
        if blocks:
            s[part].bind(outer, te.thread_axis("blockIdx.x"))
    for tensor in case.inner:
        s[tensor].compute_inline()
    lowered = analyse(lower_schedule(s, [case.X, *case.scans]))
    if blocks and not case.keeps_to_columns:
        with pytest.raises(LoweringError, match="blocks share columns of 'scan"):
            finalise_kernels(lowered)
        return
    final = verify(finalise_kernels(lowered))
    x = whole(*case.sizes)
    want = case.reference(x)
    got = [np.full_like(x, 77) for _ in want]
    interpret(final, [x, *got], races=True)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)


@SLOW
@given(data=st.data())
def test_a_random_scan_is_computed_in_the_loop_of_its_reader(data: st.DataObject) -> None:
    case = data.draw(random_scans())
    note("\n".join(case.description))
    out = te.compute(
        case.X.extents,
        lambda t, i: sum((scan[t, i] for scan in case.scans[1:]), case.scans[0][t, i] + i),
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
    analysed = verify(analyse(lower_schedule(s, [case.X, out])))
    final = verify((finalise_kernels if threads else finalise)(analysed))
    x = whole(*case.sizes)
    with np.errstate(over="ignore"):
        want = sum(case.reference(x)) + np.arange(x.shape[1], dtype="int32")
    runs: list[Any] = [lambda *a: interpret(final, a, races=True)]
    if not threads:
        runs.append(compile_function(final, cache=ObjectCache(None)))
    for run in runs:
        got = np.full_like(x, 77)
        run(x, got)
        np.testing.assert_array_equal(got, want)
